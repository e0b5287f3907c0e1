#pragma once

#include <tessera/core/memory.hpp>
#include <tessera/layer/resolve.hpp>

namespace tessera {

/// Bytes of the memory of so many elements, as `host_memory::used()` counts them: whole pieces of its alignment.
constexpr index_t block_bytes(index_t elements, index_t element_bytes) {
  constexpr auto piece = static_cast<index_t>(host_memory::alignment);
  return (elements * element_bytes + piece - 1) / piece * piece;
}
/// The same of the block that the device at `at` holds of a tensor of these extents, all of them known.
template <device_mesh Mesh, int Rank>
constexpr index_t local_bytes(placements<Mesh::axes> const& layout, shape<Rank> const& extents,
                              decltype(Mesh::sizes) const& at, index_t element_bytes) {
  return block_bytes(local_box<Mesh>(layout, extents, at).size(), element_bytes);
}

/// What a layer leaves in the memory of one device from its forward to its backward pass: what its `saved` holds.
///
/// Handles share blocks, so input and output are told apart from the rest: a neighbour may keep the same block.
struct kept_memory {
  bool input = false;      ///< the block of its input, in the layout of its rules
  bool output = false;     ///< the block of its output
  bool passes_on = false;  ///< the output is the block of the input with other extents
  index_t own = 0;         ///< bytes of other blocks: the sum of their `block_bytes`
  /// The most bytes that forward or backward has beside these, input, output and their gradients, or more.
  index_t scratch = 0;
};

namespace detail {

template <template <class> class>
struct template_of_a_type;

/// Whether forward leaves anything for backward.
template <class Layer>
concept layer_with_saved = requires {
  typename template_of_a_type<Layer::template saved>;
};

template <class Layer, auto Extents, class Mesh>
concept layer_with_kept = requires(resolved_layer<Mesh::axes> const& resolved, decltype(Mesh::sizes) const& at) {
  { Layer::template kept<Extents, Mesh>(resolved, at, index_t{}) } -> std::same_as<kept_memory>;
};
template <class Layer>
concept layer_with_keeps = requires {
  { Layer::keeps } -> std::convertible_to<kept_memory>;
};

}  // namespace detail

/// Satisfied by layers of which `kept_by` tells the memory: those that say it, and those without a `saved`.
template <class Layer, auto Extents, class Mesh>
concept layer_of_known_memory = detail::layer_with_kept<Layer, Extents, Mesh> || detail::layer_with_keeps<Layer> ||
    !detail::layer_with_saved<Layer>;

/// What `Layer` keeps on the device at `at`, for an input of these extents, all of them known, and elements of so many
/// bytes. `resolved` are its layouts, those of a model or of a candidate of a search; nothing is bound for them.
///
///     kept_by<linear<64, 256>, shape<2>{{32, 64}}, world>(layouts, {}, 4)
///
/// A layer says it as a constant `keeps`, or as `kept<Extents, Mesh>(resolved, at, element_bytes)` where it depends on
/// extents or layouts. Does not compile for a layer that has a `saved` and neither of them.
template <class Layer, auto Extents, device_mesh Mesh>
constexpr kept_memory kept_by([[maybe_unused]] resolved_layer<Mesh::axes> const& resolved,
                              [[maybe_unused]] decltype(Mesh::sizes) const& at,
                              [[maybe_unused]] index_t element_bytes) {
  static_assert(layer_of_known_memory<Layer, Extents, Mesh>,
                "tessera: this layer does not tell how much memory its `saved` holds; give it a member such as static "
                "constexpr kept_memory keeps{.input = true}, or kept<Extents, Mesh>(resolved, at, element_bytes)");
  if constexpr (detail::layer_with_kept<Layer, Extents, Mesh>)
    return Layer::template kept<Extents, Mesh>(resolved, at, element_bytes);
  else if constexpr (detail::layer_with_keeps<Layer>)
    return Layer::keeps;
  else
    return {};
}

/// The bytes of all that `Layer` keeps, of its input and output too, were nothing shared with its neighbours.
template <class Layer, auto Extents, device_mesh Mesh>
constexpr index_t bytes_kept_by(resolved_layer<Mesh::axes> const& resolved, decltype(Mesh::sizes) const& at,
                                index_t element_bytes) {
  const kept_memory kept = kept_by<Layer, Extents, Mesh>(resolved, at, element_bytes);
  index_t bytes = kept.own;
  if (kept.input) {
    index_t of_input = element_bytes;
    if constexpr (requires { typename Layer::input_element; }) of_input = sizeof(typename Layer::input_element);
    bytes += local_bytes<Mesh>(resolved.operand[0], Extents, at, of_input);
  }
  if (kept.output) bytes += local_bytes<Mesh>(resolved.output, Layer::template output<Extents>(), at, element_bytes);
  return bytes;
}

}  // namespace tessera
