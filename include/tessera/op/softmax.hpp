#pragma once

#include <tessera/op/elementwise.hpp>
#include <tessera/op/rules.hpp>

namespace tessera {

namespace detail {

/// A block as (outer, extent, inner) around one dimension, in storage order.
template <int Dim, class T, int Rank, storage_order Order>
constexpr block<T, 3> around(block<T, Rank, Order> b) {
  constexpr auto dims = stored_dims<Rank, Order>();
  index_t outer = 1;
  index_t inner = 1;
  bool after = false;
  for (const int d : dims) {
    if (d == Dim)
      after = true;
    else
      (after ? inner : outer) *= b.extents[d];
  }
  return {b.data, {{outer, b.extents[Dim], inner}}};
}

/// Row maxima and sums of exponentials over the whole of dimension `Dim`.
template <class T, class Memory>
struct softmax_rows {
  tensor<T, 2, Memory> maximum;
  tensor<T, 2, Memory> sum;
};

template <int Dim, sharded_tensor X>
auto reduce_rows(X const& x) {
  using T = typename X::value_type;
  using memory = typename X::context_type::backend::memory;
  const auto b = around<Dim>(x.read());
  softmax_rows<T, memory> rows{tensor<T, 2, memory>(shape<2>{{b.extents[0], b.extents[2]}}),
                               tensor<T, 2, memory>(shape<2>{{b.extents[0], b.extents[2]}})};
  auto& context = x.where();
  constexpr axis_set axes = X::placements.shard_axes(Dim);
  context.kernels().row_max(b, rows.maximum.view());
  if (X::mesh::group_size(axes) > 1)
    context.group(axes).all_reduce(rows.maximum.data(), rows.maximum.size(), reduction::maximum);
  context.kernels().row_sum_exp(b, rows.maximum.read(), rows.sum.view());
  if (X::mesh::group_size(axes) > 1) context.group(axes).all_reduce(rows.sum.data(), rows.sum.size(), reduction::sum);
  return rows;
}

template <int Dim, sharded_tensor Y, class Rows>
void sum_over_ranks(Y const& y, Rows& rows) {
  constexpr axis_set axes = Y::placements.shard_axes(Dim);
  if (Y::mesh::group_size(axes) > 1) y.where().group(axes).all_reduce(rows.data(), rows.size(), reduction::sum);
}

/// `Dim` counted from the front.
template <int Dim, int Rank>
constexpr int softmax_dim() {
  static_assert(-Rank <= Dim && Dim < Rank,
                "tessera: softmax runs along a dimension that the tensor does not have; name one from 0 to its rank - "
                "1, or from the end as -1");
  return Dim < 0 ? Rank + Dim : Dim;
}

template <sharded_tensor X>
using softmax_result = tessera::result_of<elementwise_op<X::rank, 1, linearity::none>, X::rank, X>;

}  // namespace detail

namespace op {

/// exp(x) / sum of exp(x) along `Dim` (negative: from the end), safe for large x.
///
/// Splits: every dimension. Collectives, where `Dim` is cut: one all_reduce of row maxima, one of row sums.
template <int Dim = -1, sharded_tensor X>
auto softmax(X const& x) {
  constexpr int dim = detail::softmax_dim<Dim, X::rank>();
  detail::softmax_result<X> y(x.where(), x.extents());
  const auto rows = detail::reduce_rows<dim>(x);
  x.where().kernels().softmax_finish(detail::around<dim>(x.read()), rows.maximum.read(), rows.sum.read(),
                                     detail::around<dim>(y.write()));
  return y;
}

/// Gradient of `softmax` from its output: y * (dy - sum of y * dy). Collectives, where `Dim` is cut: one all_reduce.
template <int Dim = -1, sharded_tensor Y, sharded_tensor Dy>
auto softmax_backward(Y const& y, Dy const& dy) {
  detail::require_equal_extents(y, dy, "softmax_backward");
  constexpr int dim = detail::softmax_dim<Dim, Y::rank>();
  result_of<detail::elementwise_op<Y::rank, 2, linearity::none>, Y::rank, Y, Dy> dx(y.where(), y.extents());
  const auto value = detail::around<dim>(y.read());
  const auto upstream = detail::around<dim>(dy.read());
  tensor<typename Y::value_type, 2, typename Y::context_type::backend::memory> dot(
      shape<2>{{value.extents[0], value.extents[2]}});
  y.where().kernels().row_dot(value, upstream, dot.view());
  detail::sum_over_ranks<dim>(y, dot);
  y.where().kernels().softmax_backward_finish(value, upstream, dot.read(), detail::around<dim>(dx.write()));
  return dx;
}

/// x - log(sum of exp(x)) along `Dim`. Splits and collectives as `softmax`.
template <int Dim = -1, sharded_tensor X>
auto log_softmax(X const& x) {
  constexpr int dim = detail::softmax_dim<Dim, X::rank>();
  detail::softmax_result<X> y(x.where(), x.extents());
  const auto rows = detail::reduce_rows<dim>(x);
  x.where().kernels().log_softmax_finish(detail::around<dim>(x.read()), rows.maximum.read(), rows.sum.read(),
                                         detail::around<dim>(y.write()));
  return y;
}

/// Gradient of `log_softmax` from its output: dy - exp(y) * sum of dy. Collectives as `softmax_backward`.
template <int Dim = -1, sharded_tensor Y, sharded_tensor Dy>
auto log_softmax_backward(Y const& y, Dy const& dy) {
  detail::require_equal_extents(y, dy, "log_softmax_backward");
  constexpr int dim = detail::softmax_dim<Dim, Y::rank>();
  result_of<detail::elementwise_op<Y::rank, 2, linearity::none>, Y::rank, Y, Dy> dx(y.where(), y.extents());
  const auto value = detail::around<dim>(y.read());
  const auto upstream = detail::around<dim>(dy.read());
  tensor<typename Y::value_type, 2, typename Y::context_type::backend::memory> sum(
      shape<2>{{value.extents[0], value.extents[2]}});
  y.where().kernels().row_sum(upstream, sum.view());
  detail::sum_over_ranks<dim>(y, sum);
  y.where().kernels().log_softmax_backward_finish(value, upstream, sum.read(), detail::around<dim>(dx.write()));
  return dx;
}

}  // namespace op

}  // namespace tessera
