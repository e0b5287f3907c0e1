#pragma once

#include <tessera/core/memory.hpp>
#include <tessera/layer/bind.hpp>
#include <tessera/layer/kept.hpp>
#include <tessera/layer/kernels.hpp>
#include <tessera/plan/search/edge.hpp>

namespace tessera::detail {

/// What a layer that is cut in some way keeps on the device with the largest blocks: values of parameters and states,
/// gradients, `copies` of both for the optimizer, and what forward leaves for backward.
template <class Problem, class Layer, auto Extents, class... P>
constexpr index_t bytes_of_cut(resolved_layer<Problem::mesh::axes> const& resolved, bool keeps, index_t copies,
                               parameter_list<P...> const*) {
  using mesh = typename Problem::mesh;
  constexpr auto known = [] {
    auto extents = Extents;
    for (int d = 0; d < extents.rank; ++d)
      if (extents[d] == dynamic) extents[d] = Problem::unknown;
    return extents;
  }();
  index_t bytes = 0;
  [[maybe_unused]] int operand = 0;
  ((bytes += local_bytes<mesh>(resolved.operand[++operand], P::extents, {}, Problem::element_bytes) *
             (P::trainable ? 2 + copies : 1)),
   ...);
  if constexpr (layer_of_known_memory<Layer, known, mesh>)
    if (keeps) bytes += bytes_kept_by<Layer, known, mesh>(resolved, {}, Problem::element_bytes);
  return bytes;
}
/// The bytes of a block of the input of what recomputes, by the layout of the input.
template <class Problem, auto Extents>
constexpr index_t bytes_of_input(edge_code code) {
  const auto block =
      largest_block(Problem::mesh::value, layout_of_edge<Problem::mesh::axes>(code), Extents, Problem::unknown);
  return block_bytes(block.size(), Problem::element_bytes);
}

}  // namespace tessera::detail
