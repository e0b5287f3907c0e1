#pragma once

#include <tessera/layer/relayout.hpp>

namespace tessera {

/// A mark between the layers of a model's outermost chain: stage `Number` of its pipeline begins here.
///
///     chain<linear<64, 256>, relu, stage<1>, linear<256, 64>, relu, stage<2>, linear<64, 10>>
///
/// Stages are numbered from 0 without a gap; the mark of stage 0 may be left out. A mark computes nothing, has no place
/// in the names of parameters, and means nothing to a model without a `pipeline` policy.
template <int Number>
struct stage {
  static_assert(Number >= 0, "tessera: the stages of a pipeline are numbered from 0; give this mark its number");
  static constexpr int number = Number;
};

namespace detail {

template <int Number, class Mesh, class Flow>
struct bind<stage<Number>, Mesh, Flow> {
  using type = bound_relayout<Flow::layout, Mesh, Flow>;
};

/// The number of a mark, -1 for a layer.
template <class Layer>
inline constexpr int stage_number = -1;
template <int Number>
inline constexpr int stage_number<stage<Number>> = Number;

}  // namespace detail

}  // namespace tessera
