#pragma once

#include <tessera/op/rules.hpp>

#include <cmath>
#include <limits>

namespace tessera {

namespace detail {
constexpr index_rules full_reduction_rules(int rank, linearity partial) {
  index_rules r = elementwise_rules(rank, 1, partial);
  r.length -= rank;  // no letter is left in the result
  return r;
}
template <int Rank>
struct reduce_sum_op {
  static constexpr index_rules rules = full_reduction_rules(Rank, linearity::each);
};
template <int Rank>
struct reduce_max_op {
  static constexpr index_rules rules = full_reduction_rules(Rank, linearity::none);
};

/// The layout of a reduction with another operation than sum.
template <int Axes>
constexpr placements<Axes> with_operation(placements<Axes> layout, reduction op) {
  for (int a = 0; a < Axes; ++a)
    if (layout[a].is_partial()) layout[a] = partial_placement(op);
  return layout;
}
}  // namespace detail

namespace op {

/// The sum of all elements, a partial sum along every axis that cuts x. Accumulated in double. No collectives.
template <sharded_tensor X>
auto reduce_sum(X const& x) {
  result_of<detail::reduce_sum_op<X::rank>, 0, X> out(x.where(), {});
  double sum = 0;
  for (auto const v : x.read()) sum += static_cast<double>(v);
  *out.write().data = static_cast<typename X::value_type>(sum);
  return out;
}

/// The largest element, a partial maximum along every axis that cuts x: minus infinity from an empty block, NaN where
/// there is one. A partial sum does not compile. No collectives.
template <sharded_tensor X>
auto reduce_max(X const& x) {
  using T = typename X::value_type;
  using sum_type = result_of<detail::reduce_max_op<X::rank>, 0, X>;
  relaid<X, 0, detail::with_operation(sum_type::placements, reduction::maximum)> out(x.where(), {});
  T most = -std::numeric_limits<T>::infinity();
  for (T const v : x.read())
    if (v > most || std::isnan(v)) {
      most = v;
      if (std::isnan(v)) break;
    }
  *out.write().data = most;
  return out;
}

/// The mean of all elements, a partial sum along every axis that cuts x: divides by the number of elements of the whole
/// tensor, so blocks of unequal size count right. No collectives.
template <sharded_tensor X>
auto mean(X const& x) {
  auto out = reduce_sum(x);
  *out.write().data /= static_cast<typename X::value_type>(x.extents().size());
  return out;
}

/// Gradient of `reduce_sum` in the type of its input: the upstream value everywhere.
template <sharded_tensor X, sharded_tensor Dy>
X reduce_sum_backward(X const& x, Dy const& dy) {
  static_assert(Dy::rank == 0 && Dy::placements.partial_axes() == 0,
                "tessera: the gradient of a sum is a replicated scalar; reduce it first");
  X dx(x.where(), x.extents());
  auto out = dx.write();
  std::fill(out.begin(), out.end(), *dy.read().data);
  return dx;
}

}  // namespace op

}  // namespace tessera
