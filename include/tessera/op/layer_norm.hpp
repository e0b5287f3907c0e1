#pragma once

#include <tessera/op/row_norm.hpp>

namespace tessera::op {

/// Layer norm: (x - mean) / sqrt(variance + epsilon) * weight + bias, mean and biased variance over the last
/// dimensions, those of `weight` and `bias` (one to three). J. Ba, J. Kiros and G. Hinton, "Layer normalization", 2016.
///
/// Splits: every dimension, weight and bias cut like the dimensions that they have. Collectives: none; where a
/// dimension that is normalised over is cut, one all_reduce of two sums a row. Returns the result and its statistics.
template <sharded_tensor X, sharded_tensor W, sharded_tensor B>
normalized<X> layer_norm(X const& x, W const& weight, B const& bias, double epsilon = 1e-5) {
  static_assert(W::rank == B::rank, "tessera: weight and bias of layer_norm have as many dimensions as each other");
  using result [[maybe_unused]] = result_of<detail::row_norm_op<X::rank, W::rank, 2>, X::rank, X, W, B>;
  detail::require_row_extents(x, weight, "extent of the weight of layer_norm");
  detail::require_row_extents(x, bias, "extent of the bias of layer_norm");
  const detail::row_view<W::rank, X> rows(x);
  typename decltype(rows)::image_tensor copy_weight;
  typename decltype(rows)::image_tensor copy_bias;
  return detail::normalize_rows<W::rank, true>(x, rows, epsilon, rows.parameter(weight, copy_weight),
                                               rows.parameter(bias, copy_bias));
}

/// The same over the last `Dims` dimensions, without weight and bias.
template <int Dims = 1, sharded_tensor X>
normalized<X> layer_norm(X const& x, double epsilon = 1e-5) {
  using result [[maybe_unused]] = result_of<detail::row_norm_op<X::rank, Dims, 0>, X::rank, X>;
  const detail::row_view<Dims, X> rows(x);
  typename decltype(rows)::template block_of<typename X::value_type const, 1> none;
  return detail::normalize_rows<Dims, true>(x, rows, epsilon, none, none);
}

/// Gradient of x, from x and the statistics of the forward pass; those of weight and bias are written into `dweight`
/// and `dbias`, partial sums along every axis that cuts a dimension which these do not have.
///
/// Collectives: none; where a dimension that is normalised over is cut, one all_reduce of two sums a row.
template <sharded_tensor X, sharded_tensor Dy, class Memory, class Number, sharded_tensor W, sharded_tensor Dw,
          sharded_tensor Db>
X layer_norm_backward(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics, W const& weight,
                      Dw& dweight, Db& dbias) {
  using result [[maybe_unused]] = result_of<detail::row_norm_op<X::rank, W::rank, 1>, X::rank, X, W>;
  detail::check_row_gradient<W::rank>(x, dy, statistics);
  detail::check_target<detail::row_parameter_gradient<X, W>, Dw>();
  detail::check_target<detail::row_parameter_gradient<X, W>, Db>();
  detail::require_row_extents(x, dweight, "extent of the gradient of the weight of layer_norm");
  detail::require_row_extents(x, dbias, "extent of the gradient of the bias of layer_norm");
  const detail::row_view<W::rank, X> rows(x);
  typename decltype(rows)::image_tensor copy;
  const auto gamma = rows.parameter(weight, copy);
  X dx;
  rows.write_gradients(
      [&](auto dgamma, auto dbeta) {
        dx = detail::normalize_rows_backward<W::rank, true>(x, dy, rows, statistics, gamma, dgamma, dbeta);
      },
      dweight, dbias);
  return dx;
}

/// The same without weight and bias.
template <int Dims = 1, sharded_tensor X, sharded_tensor Dy, class Memory, class Number>
X layer_norm_backward(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics) {
  detail::check_row_gradient<Dims>(x, dy, statistics);
  const detail::row_view<Dims, X> rows(x);
  typename decltype(rows)::template block_of<typename X::value_type const, 1> none;
  typename decltype(rows)::template block_of<typename X::value_type, 1> unwanted;
  return detail::normalize_rows_backward<Dims, true>(x, dy, rows, statistics, none, unwanted, unwanted);
}

/// The gradients of weight and bias alone, for a first layer. No collectives.
template <sharded_tensor X, sharded_tensor Dy, class Memory, class Number, sharded_tensor Dw, sharded_tensor Db>
void layer_norm_backward_parameters(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics,
                                    Dw& dweight, Db& dbias) {
  detail::check_row_gradient<Dw::rank>(x, dy, statistics);
  detail::check_target<detail::row_parameter_gradient<X, Dw>, Dw>();
  detail::check_target<detail::row_parameter_gradient<X, Db>, Db>();
  detail::require_row_extents(x, dweight, "extent of the gradient of the weight of layer_norm");
  detail::require_row_extents(x, dbias, "extent of the gradient of the bias of layer_norm");
  const detail::row_view<Dw::rank, X> rows(x);
  rows.write_gradients(
      [&](auto dgamma, auto dbeta) {
        detail::normalize_rows_parameter_gradients<Dw::rank, true>(x, dy, rows, statistics, dgamma, dbeta);
      },
      dweight, dbias);
}

}  // namespace tessera::op
