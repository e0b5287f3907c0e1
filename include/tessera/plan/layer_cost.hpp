#pragma once

#include <tessera/layer/kernels.hpp>
#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/residual.hpp>

#include <initializer_list>

namespace tessera {

/// The work of a pass through a layer on the device that has most to do. Extents that only run time knows count as one
/// number, 1 unless said otherwise: the work is then that per row of a batch.
struct layer_work {
  double flops = 0;     ///< multiplications and additions of matrix products
  double elements = 0;  ///< elements that go through memory
  int kernels = 0;

  friend constexpr layer_work operator+(layer_work const& a, layer_work const& b) {
    return {a.flops + b.flops, a.elements + b.elements, a.kernels + b.kernels};
  }

  /// Floating-point operations that take as long as one element through memory: 160 GFLOP/s of a matrix product against
  /// 33 GB/s of copied floats, both for one core with AVX-512.
  static constexpr double flops_per_element = 20;
  /// The time, in units of one floating-point operation of a matrix product.
  constexpr double time() const { return flops + flops_per_element * elements; }
};

namespace detail {

template <class Bound>
struct work_of;

template <class Chain, class Mesh, class Flow>
struct work_of<bound_chain<Chain, Mesh, Flow>> {
  static constexpr layer_work forward(index_t unknown) {
    return [unknown]<int... I>(std::integer_sequence<int, I...>) {
      return (layer_work{} + ... + work_of<typename bound_chain<Chain, Mesh, Flow>::template at<I>>::forward(unknown));
    }
    (std::make_integer_sequence<int, Chain::count>{});
  }
};

template <class Branch, class Shortcut, class Mesh, class Flow>
struct work_of<bound_residual<Branch, Shortcut, Mesh, Flow>> {
  using bound = bound_residual<Branch, Shortcut, Mesh, Flow>;
  static constexpr layer_work forward(index_t unknown) {
    const layer_work branch = work_of<typename bound::branch>::forward(unknown) + sum(unknown);
    if constexpr (bound::plain)
      return branch;
    else
      return branch + work_of<typename bound::shortcut>::forward(unknown);
  }
  /// Of the sum of branch and shortcut.
  static constexpr layer_work sum(index_t unknown) {
    return {0, 3 * largest_size(Mesh::value, bound::joined, bound::output::extents, unknown), 1};
  }
};

template <auto Target, class Mesh, class Flow>
struct work_of<bound_relayout<Target, Mesh, Flow>> {
  static constexpr layer_work forward(index_t) { return {}; }
};

template <class Layer, class Mesh, class Flow>
struct work_of<bound_recompute<Layer, Mesh, Flow>> : work_of<typename bound_recompute<Layer, Mesh, Flow>::inner> {};

template <class Layer, class Mesh, class Flow>
struct work_of<bound_layer<Layer, Mesh, Flow>> {
  using bound = bound_layer<Layer, Mesh, Flow>;

  /// Of the kernels of these passes.
  static constexpr layer_work of(index_t unknown, std::initializer_list<layer_pass> passes) {
    layer_work sum;
    each_kernel<Layer, Flow::extents, Mesh>(bound::resolved, unknown,
                                            [&](layer_pass pass, double flops, double elements, kernel_kind) {
                                              for (const layer_pass wanted : passes)
                                                if (pass == wanted) sum = sum + layer_work{flops, elements, 1};
                                            });
    return sum;
  }
  static constexpr layer_work forward(index_t unknown) { return of(unknown, {layer_pass::forward}); }
};

}  // namespace detail

/// The work of the forward pass of a bound layer of any kind.
template <class Bound>
constexpr layer_work forward_work(index_t unknown = 1) {
  return detail::work_of<Bound>::forward(unknown);
}
/// The work of the backward pass of one bound layer.
template <class Bound>
constexpr layer_work backward_work(bool wants_input = true, index_t unknown = 1) {
  using work = detail::work_of<Bound>;
  return wants_input ? work::of(unknown, {layer_pass::parameters, layer_pass::input})
                     : work::of(unknown, {layer_pass::parameters});
}

}  // namespace tessera
