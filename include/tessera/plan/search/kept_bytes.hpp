#pragma once

#include <tessera/layer/chain.hpp>
#include <tessera/plan/search/cut_bytes.hpp>
#include <tessera/plan/search/node.hpp>

namespace tessera::detail {

/// What a bound layer of any kind keeps on the device with the largest blocks, counted as a search with a limit does:
/// see `graph_of`. `Copies` is how many values an optimizer keeps for each parameter.
template <class Problem, index_t Copies, class Bound>
struct kept_bytes {
  static constexpr index_t count(bool, int) { return 0; }
};
template <class Problem, index_t Copies, class Layer, class Mesh, class Flow>
struct kept_bytes<Problem, Copies, bound_layer<Layer, Mesh, Flow>> {
  static_assert(
      layer_of_known_memory<Layer, Flow::extents, Mesh>,
      "tessera: a memory limit needs to know what each layer keeps, and this one does not tell; give it a member "
      "`keeps` or `kept`, or search without a limit");
  static constexpr index_t count(bool wants_input, int forwards) {
    const bool keeps = (wants_input || learning<Layer>)&&forwards == 1;
    return bytes_of_cut<Problem, Layer, Flow::extents>(bound_layer<Layer, Mesh, Flow>::resolved, keeps, Copies,
                                                       static_cast<typename Layer::parameters const*>(nullptr));
  }
};
template <class Problem, index_t Copies, class Chain, class Mesh, class Flow>
struct kept_bytes<Problem, Copies, bound_chain<Chain, Mesh, Flow>> {
  using bound = bound_chain<Chain, Mesh, Flow>;
  static constexpr index_t count(bool wants_input, int forwards) {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return (index_t{0} + ... +
              kept_bytes<Problem, Copies, typename bound::template at<I>>::count(
                  wants_input || bound::template learns_before<I>, forwards));
    }
    (std::make_integer_sequence<int, bound::count>{});
  }
};
template <class Problem, index_t Copies, class Branch, class Shortcut, class Mesh, class Flow>
struct kept_bytes<Problem, Copies, bound_residual<Branch, Shortcut, Mesh, Flow>> {
  using bound = bound_residual<Branch, Shortcut, Mesh, Flow>;
  static constexpr index_t count(bool wants_input, int forwards) {
    index_t bytes = kept_bytes<Problem, Copies, typename bound::branch>::count(wants_input, forwards);
    if constexpr (!bound::plain)
      bytes += kept_bytes<Problem, Copies, typename bound::shortcut>::count(wants_input, forwards);
    return bytes;
  }
};
template <class Problem, index_t Copies, class Layer, class Mesh, class Flow>
struct kept_bytes<Problem, Copies, bound_recompute<Layer, Mesh, Flow>> {
  using bound = bound_recompute<Layer, Mesh, Flow>;
  static constexpr index_t count(bool wants_input, int forwards) {
    const bool again = wants_input || bound::inner::learns;
    return (again ? bytes_of_input<Problem, Flow::extents>(edge_of(Flow::layout)) : 0) +
           kept_bytes<Problem, Copies, typename bound::inner>::count(wants_input, forwards + int{again});
  }
};

}  // namespace tessera::detail
