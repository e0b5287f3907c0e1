#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/node.hpp>
#include <tessera/op/row_norm.hpp>

namespace tessera {

/// The last extents of an input, those that a normalisation runs over.
template <index_t... Extents>
struct last {
  static constexpr shape<static_cast<int>(sizeof...(Extents))> extents{{Extents...}};
};

namespace detail {

/// The split word of dimension `dim` of an input of a normalisation over its last `dims` dimensions.
constexpr std::string_view row_norm_word(int rank, int dims, int dim) {
  constexpr std::string_view of_images[] = {"batch", "channels", "height", "width"};
  constexpr std::string_view others[] = {"batch", "sequence", "dim2", "dim3", "dim4", "dim5"};
  if (dims == 1 && dim == rank - 1) return "features";
  return rank == 4 ? of_images[dim] : others[dim];
}

/// What layer norm and root-mean-square norm over the extents `Last` have in common: parameters, rules and collectives.
template <class Last, bool Centred, class Epsilon, class... Options>
struct row_norm_layer;
template <index_t... E, bool Centred, class Epsilon, class... Options>
struct row_norm_layer<last<E...>, Centred, Epsilon, Options...> {
  static constexpr int dims = static_cast<int>(sizeof...(E));
  static constexpr bool affine = !has_option<no_affine, Options...>;
  static constexpr double epsilon = option_or_t<is_epsilon, Epsilon, Options...>::value;
  using words = split_words<Options...>;
  static constexpr kernel_kind kernels = kernel_kind::norm;

  struct weight : parameter<typename option_or_t<is_weight_init, weight_init<ones>, Options...>::type, E...> {
    static constexpr std::string_view name = "weight";
  };
  struct bias : parameter<typename option_or_t<is_bias_init, bias_init<zeros>, Options...>::type, E...> {
    static constexpr std::string_view name = "bias";
  };
  using parameters =
      std::conditional_t<!affine, parameter_list<>,
                         std::conditional_t<Centred, parameter_list<weight, bias>, parameter_list<weight>>>;

  template <bool Known>
  struct split_check {
    static_assert(Known,
                  "tessera: this normalisation has no such split; it has split_batch, split_sequence and "
                  "split_features, and of images split_channels, split_height and split_width");
  };
  static constexpr shape<1 + dims> input_extents{{dynamic, E...}};

  template <auto Extents>
  static constexpr index_rules rules() {
    constexpr int rank = Extents.rank;
    index_rules r = row_norm_rules(rank, dims, parameters::count);
    for (int d = 0; d < rank; ++d) r.cuts[d].word = row_norm_word(rank, dims, d);
    return r;
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents.rank > dims,
                  "tessera: a normalisation runs over the last dimensions of its input, which has at least one "
                  "dimension more; name fewer extents");
    constexpr bool fit = [] {
      bool all = true;
      for (int d = 0; d < dims; ++d) {
        const index_t found = Extents[Extents.rank - dims + d];
        all = all && (found == last<E...>::extents[d] || found == dynamic);
      }
      return all;
    }();
    static_assert(fit,
                  "tessera: the input of a normalisation does not end with the extents that it runs over; make them "
                  "those of what comes before");
    return Extents;
  }
  template <auto Extents, class Mesh>
  static constexpr void calls(phase when, resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    if (when == phase::forward) reduction_of_rows<Extents, Mesh>(when, r, list);
  }
  template <auto Extents, class Mesh>
  static constexpr void input_gradient_calls(resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    reduction_of_rows<Extents, Mesh>(phase::backward, r, list);
  }
  /// Rows stay in the cache between their statistics and their results.
  template <auto Extents, class Mesh, class Add>
  static constexpr void work(resolved_layer<Mesh::axes> const& r, index_t unknown, Add& add) {
    const double size = largest_size(Mesh::value, r.output, Extents, unknown);
    add(layer_pass::forward, 0.0, 2 * size);
    if (affine) add(layer_pass::parameters, 0.0, 2 * size);
    add(layer_pass::input, 0.0, 3 * size);
  }

  template <class X>
  struct saved {
    X x;
    using backend = typename X::context_type::backend;
    row_statistics<typename backend::memory, typename backend::statistic> statistics;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                    index_t element_bytes) {
    const auto part = local_box<Mesh>(r.output, Extents, at);
    index_t rows = 1;
    for (int d = 0; d < Extents.rank - dims; ++d) rows *= part[d].size;
    const index_t statistic = block_bytes(rows, sizeof(double));
    kept_memory kept{.input = true, .own = (Centred ? 2 : 1) * statistic, .scratch = 9 * statistic};
    // Images, or parameters, are brought into the order of rows.
    if (Extents.rank == 4) kept.scratch += (dims < 3 ? 3 : 4) * block_bytes(part.size(), element_bytes);
    return kept;
  }

 private:
  template <auto Extents, class Mesh>
  static constexpr void reduction_of_rows(phase when, resolved_layer<Mesh::axes> const& r,
                                          call_list<Mesh::axes>& list) {
    auto rows = Extents;
    auto layout = r.output;
    unsigned axes = 0;
    for (int d = rows.rank - dims; d < rows.rank; ++d) {
      rows[d] = 1;
      axes |= layout.shard_axes(d);
    }
    for (int a = 0; a < Mesh::axes; ++a)
      if ((axes >> a & 1u) != 0) layout[a] = replicated_placement();
    append_reduction<Mesh>(list, when, collective::all_reduce, static_cast<axis_set>(axes), reduction::sum, rows,
                           layout, Centred ? 2 : 1);
  }
};

}  // namespace detail

}  // namespace tessera
