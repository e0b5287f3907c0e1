#pragma once

#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/residual.hpp>

namespace tessera {

/// The work of a pass through a layer on one device. Extents that only run time knows count as one number, 1 unless
/// said otherwise: the work is then that per row of a batch.
struct layer_work {
  double flops = 0;     ///< multiplications and additions of matrix products
  double elements = 0;  ///< elements of inputs, results and weights that go through memory

  friend constexpr layer_work operator+(layer_work const& a, layer_work const& b) {
    return {a.flops + b.flops, a.elements + b.elements};
  }

  /// Floating-point operations that take as long as one element through memory: 160 GFLOP/s of a matrix product against
  /// 33 GB/s of copied floats, both for one core with AVX-512.
  static constexpr double flops_per_element = 20;
  /// The time, in units of one floating-point operation of a matrix product.
  constexpr double time() const { return flops + flops_per_element * elements; }
};

namespace detail {

/// The largest block that a device holds; an extent that only run time knows counts as `unknown`.
template <class Mesh, int Rank>
constexpr box<Rank> counted_box(placements<Mesh::axes> const& layout, shape<Rank> extents, index_t unknown) {
  for (int d = 0; d < Rank; ++d)
    if (extents[d] == dynamic) extents[d] = unknown;
  return local_box<Mesh>(layout, extents, decltype(Mesh::sizes){});
}

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
    return {0, 3 * static_cast<double>(counted_box<Mesh>(bound::joined, bound::output::extents, unknown).size())};
  }
};

template <auto Target, class Mesh, class Flow>
struct work_of<bound_relayout<Target, Mesh, Flow>> {
  static constexpr layer_work forward(index_t) { return {}; }
};

template <class Layer, class Mesh, class Flow>
struct work_of<bound_recompute<Layer, Mesh, Flow>> : work_of<typename bound_recompute<Layer, Mesh, Flow>::inner> {};

/// A weight of two dimensions or more is a matrix that each position of the result multiplies with; positions are what
/// the input and the result have in common and the weight has not.
template <class Layer, class Mesh, class Flow>
struct work_of<bound_layer<Layer, Mesh, Flow>> {
  using bound = bound_layer<Layer, Mesh, Flow>;
  static constexpr bool looks_up = requires { typename Layer::input_element; };

  template <class... P>
  static constexpr layer_work weights(box<bound::output::rank> const& result, parameter_list<P...> const*) {
    layer_work sum;
    int operand = 0;
    [[maybe_unused]] const auto one = [&]<int Rank>(shape<Rank> const& extents) {
      ++operand;
      if (Rank < 2 || looks_up) return;
      const auto size = static_cast<double>(counted_box<Mesh>(bound::resolved.operand[operand], extents, 1).size());
      double positions = 1;
      const std::string_view letters = bound::rules.result();
      for (int d = 0; d < bound::output::rank; ++d) {
        const char letter = letters[static_cast<std::size_t>(d)];
        if (dim_of(bound::rules.operand(0), letter) >= 0 && dim_of(bound::rules.operand(operand), letter) < 0)
          positions *= static_cast<double>(result[d].size);
      }
      sum = sum + layer_work{2 * positions * size, size};
    };
    (one(P::extents), ...);
    return sum;
  }

  static constexpr layer_work forward(index_t unknown) {
    const auto result = counted_box<Mesh>(bound::output::layout, bound::output::extents, unknown);
    const auto input = counted_box<Mesh>(bound::resolved.operand[0], Flow::extents, unknown);
    return layer_work{0, static_cast<double>(result.size() + input.size())} +
           weights(result, static_cast<typename bound::parameters const*>(nullptr));
  }
};

}  // namespace detail

/// The work of the forward pass of a bound layer of any kind.
template <class Bound>
constexpr layer_work forward_work(index_t unknown = 1) {
  return detail::work_of<Bound>::forward(unknown);
}
/// The work of its backward pass: each matrix product has two as large in it, one for the gradient of the weight and
/// one, where anybody wants it, for that of the input.
template <class Bound>
constexpr layer_work backward_work(bool wants_input = true, index_t unknown = 1) {
  const layer_work forward = forward_work<Bound>(unknown);
  return {(wants_input ? 2 : 1) * forward.flops, 2 * forward.elements};
}

}  // namespace tessera
