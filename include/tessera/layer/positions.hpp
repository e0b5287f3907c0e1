#pragma once

#include <tessera/layer/node.hpp>
#include <tessera/op/broadcast.hpp>
#include <tessera/op/slice.hpp>

namespace tessera {

/// Adds a learned row of a table [Length, Features] to each position of sequences [B, S, Features], S up to Length: row
/// s to position s (J. Gehring et al., ICML 2017; A. Radford et al., 2018).
///
/// Option: `weight_init<...>` (standard normal), and split words:
///
/// | split | table | output | backward |
/// |---|---|---|---|
/// | `split_batch`, `split_sequence` (flow) | whole | cut alike | its gradient partial |
/// | `split_features` (flows) | by columns | cut alike | its gradient cut |
///
/// No collectives. Throws where a sequence is longer than the table.
template <index_t Length, index_t Features, class... Options>
struct learned_positions {
  static_assert((detail::known_option<Options, detail::is_weight_init> && ...),
                "tessera: learned_positions has no such option; it has weight_init<...> and split words");
  using words = split_words<Options...>;

  struct weight
      : parameter<typename detail::option_or_t<detail::is_weight_init, weight_init<standard_normal>, Options...>::type,
                  Length, Features> {
    static constexpr std::string_view name = "weight";
  };
  using parameters = parameter_list<weight>;

  template <bool Known>
  struct split_check {
    static_assert(Known,
                  "tessera: learned_positions has no such split; it has split_batch, split_sequence and "
                  "split_features");
  };
  static constexpr shape<3> input_extents{{dynamic, dynamic, Features}};

  template <auto Extents>
  static constexpr index_rules rules() {
    return {"nsf,pf->nsf", {{'n', "batch"}, {'s', "sequence"}, {'f', "features"}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents.rank == 3, "tessera: learned_positions takes sequences [B, S, Features]; reshape the input");
    static_assert(Extents[2] == Features || Extents[2] == dynamic,
                  "tessera: the input of learned_positions does not have its Features; make them the last extent of "
                  "what comes before");
    static_assert(Extents[1] == dynamic || Extents[1] <= Length,
                  "tessera: the input of learned_positions has more positions than its table has rows; make the table "
                  "longer");
    return Extents;
  }
  /// A row is added to each position, and backward adds up each row's gradients.
  template <auto Extents, class Mesh, class Add>
  static constexpr void work(resolved_layer<Mesh::axes> const& r, index_t unknown, Add& add) {
    const double size = largest_size(Mesh::value, r.output, Extents, unknown);
    add(layer_pass::forward, 0.0, 2 * size);
    add(layer_pass::parameters, 0.0, size + largest_size(Mesh::value, r.operand[1], weight::extents, unknown));
  }

  /// Rows of the table, and the same as positions are cut.
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                    index_t element_bytes) {
    return {.scratch = 2 * local_bytes<Mesh>(r.operand[1], shape<2>{{Extents[1], Features}}, at, element_bytes)};
  }
  template <class Env, class Saved, class X, class W>
  static auto forward(Env const&, Saved&, X const& x, W const& w) {
    if (x.extent(1) > Length)
      throw error("a sequence of " + std::to_string(x.extent(1)) + " positions",
                  "at most the " + std::to_string(Length) + " rows of its learned_positions",
                  "make the table longer, or the sequences shorter");
    constexpr auto rows = [] {  // of the table, cut as positions and features are
      auto layout = X::placements;
      for (int a = 0; a < X::mesh::axes; ++a)
        layout[a] = X::placements[a].is_shard(0) || !X::placements[a].is_shard()
                        ? replicated_placement()
                        : shard_placement(X::placements[a].dim - 1, X::placements[a].order);
      return layout.normalized();
    }();
    const auto table = op::slice<0>(w, 0, x.extent(1));
    return op::add(x, along<1, 2>(redistribute<layout_of<typename X::mesh, rows>>(table)));
  }
  template <class Env, class Saved, class Dy, class Gradients, class W>
  static auto backward(Env const&, Saved const&, Dy const& dy, Gradients& gradients, W const&) {
    auto& gradient = std::get<0>(gradients);
    const auto into = gradient.write();
    auto& kernels = dy.where().kernels();
    kernels.fill(detail::flat(into), typename Dy::value_type{0});
    const auto sums = op::sum_along<1, 2>(dy);
    const auto from = sums.read();
    box<2> all;
    for (int d = 0; d < 2; ++d) all[d] = {0, from.extent(d)};
    copy_box(kernels, from, all, into, {sums.part()[0].begin, 0});
    if constexpr (Env::wants_input_gradient)
      return dy;
    else
      return no_gradient{};
  }
};

}  // namespace tessera
