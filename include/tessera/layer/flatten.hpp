#pragma once

#include <tessera/layer/node.hpp>
#include <tessera/op/flatten.hpp>

namespace tessera {

/// Merges dimensions `Start` to `End` (-1: the last) into one, in logical row-major order.
///
/// Splits: every dimension but those after `Start` inside the range flows; a cut of `Start` only where it is even, or
/// the other extents are 1. No collectives.
template <int Start = 1, int End = -1>
struct flatten {
  using words = split_words<>;
  using parameters = parameter_list<>;
  static constexpr bool gradient_is_linear = true;

  template <auto Extents>
  static constexpr int last = End < 0 ? Extents.rank + End : End;

  template <auto Extents>
  static constexpr index_rules rules() {
    bool alone = true;
    for (int d = Start + 1; d <= last<Extents>; ++d) alone = alone && Extents[d] == 1;
    // An extent that only run time knows is taken as 1: no cut of it can be known to be even.
    return detail::flatten_rules(Extents.rank, Start, last<Extents>,
                                 alone                       ? 0
                                 : Extents[Start] == dynamic ? 1
                                                             : Extents[Start]);
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(0 <= Start && Start <= last<Extents> && last<Extents> < Extents.rank,
                  "tessera: flatten merges dimensions from Start to End; name dimensions that the input has");
    constexpr int merged = last<Extents> - Start;
    shape<Extents.rank - merged> out;
    for (int d = 0; d < out.rank; ++d) out[d] = Extents[d <= Start ? d : d + merged];
    for (int d = Start + 1; d <= last<Extents>; ++d)
      out[Start] = out[Start] == dynamic || Extents[d] == dynamic ? dynamic : out[Start] * Extents[d];
    return out;
  }
  /// Where elements lie in another order a copy, both ways.
  template <auto Extents, class Mesh, class Add>
  static constexpr void work(resolved_layer<Mesh::axes> const& r, index_t unknown, Add& add) {
    constexpr auto out = output<Extents>();
    const auto from = largest_block(Mesh::value, r.operand[0], Extents, unknown);
    const auto to = largest_block(Mesh::value, r.output, out, unknown);
    if (detail::reshape_shares_block<storage_order::channels_last>(from, to)) return;
    for (const layer_pass pass : {layer_pass::forward, layer_pass::input})
      add(pass, 0.0, 2 * static_cast<double>(from.size()));
  }

  template <class X>
  struct saved {
    shape<X::rank> extents;
    using input = X;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                    index_t element_bytes) {
    constexpr auto out = output<Extents>();
    const auto from = local_box<Mesh>(r.operand[0], Extents, at).extents();
    const auto to = local_box<Mesh>(r.output, out, at).extents();
    if (detail::reshape_shares_block<storage_order::channels_last>(from, to)) return {.passes_on = true};
    return {.scratch = block_bytes(from.size(), element_bytes)};
  }
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.extents = x.extents();
    return op::flatten<Start, End>(x);
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::flatten_backward<detail::gradient_like<typename Saved::input, Dy>>(dy, saved.extents);
  }
};

}  // namespace tessera
