#pragma once

#include <tessera/op/row_norm.hpp>

namespace tessera::op {

/// Root-mean-square norm: x / sqrt(mean of x^2 + epsilon) * weight, the mean over the last dimensions, those of
/// `weight` (one to three). B. Zhang and R. Sennrich, "Root mean square layer normalization", NeurIPS 2019.
///
/// Splits: every dimension, the weight cut like the dimensions that it has. Collectives: none; where a dimension that
/// is normalised over is cut, one all_reduce of one sum a row. Returns the result and its statistics.
template <sharded_tensor X, sharded_tensor W>
normalized<X> rms_norm(X const& x, W const& weight, double epsilon = 1e-6) {
  using result [[maybe_unused]] = result_of<detail::row_norm_op<X::rank, W::rank, 1>, X::rank, X, W>;
  detail::require_row_extents(x, weight, "extent of the weight of rms_norm");
  const detail::row_view<W::rank, X> rows(x);
  typename decltype(rows)::image_tensor copy;
  const auto gamma = rows.parameter(weight, copy);
  return detail::normalize_rows<W::rank, false>(x, rows, epsilon, gamma, decltype(gamma){});
}

/// The same over the last `Dims` dimensions, without a weight.
template <int Dims = 1, sharded_tensor X>
normalized<X> rms_norm(X const& x, double epsilon = 1e-6) {
  using result [[maybe_unused]] = result_of<detail::row_norm_op<X::rank, Dims, 0>, X::rank, X>;
  const detail::row_view<Dims, X> rows(x);
  typename decltype(rows)::template block_of<typename X::value_type const, 1> none;
  return detail::normalize_rows<Dims, false>(x, rows, epsilon, none, none);
}

/// Gradient of x, from x and the statistics of the forward pass; that of the weight is written into `dweight`, a
/// partial sum along every axis that cuts a dimension which it does not have.
///
/// Collectives: none; where a dimension that is normalised over is cut, one all_reduce of one sum a row.
template <sharded_tensor X, sharded_tensor Dy, class Memory, class Number, sharded_tensor W, sharded_tensor Dw>
X rms_norm_backward(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics, W const& weight,
                    Dw& dweight) {
  using result [[maybe_unused]] = result_of<detail::row_norm_op<X::rank, W::rank, 1>, X::rank, X, W>;
  detail::check_row_gradient<W::rank>(x, dy, statistics);
  detail::check_target<detail::row_parameter_gradient<X, W>, Dw>();
  detail::require_row_extents(x, dweight, "extent of the gradient of the weight of rms_norm");
  const detail::row_view<W::rank, X> rows(x);
  typename decltype(rows)::image_tensor copy;
  const auto gamma = rows.parameter(weight, copy);
  X dx;
  rows.write_gradients(
      [&](auto dgamma) {
        dx =
            detail::normalize_rows_backward<W::rank, false>(x, dy, rows, statistics, gamma, dgamma, decltype(dgamma){});
      },
      dweight);
  return dx;
}

/// The same without a weight.
template <int Dims = 1, sharded_tensor X, sharded_tensor Dy, class Memory, class Number>
X rms_norm_backward(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics) {
  detail::check_row_gradient<Dims>(x, dy, statistics);
  const detail::row_view<Dims, X> rows(x);
  typename decltype(rows)::template block_of<typename X::value_type const, 1> none;
  typename decltype(rows)::template block_of<typename X::value_type, 1> unwanted;
  return detail::normalize_rows_backward<Dims, false>(x, dy, rows, statistics, none, unwanted, unwanted);
}

/// The gradient of the weight alone, for a first layer. No collectives.
template <sharded_tensor X, sharded_tensor Dy, class Memory, class Number, sharded_tensor Dw>
void rms_norm_backward_parameters(X const& x, Dy const& dy, row_statistics<Memory, Number> const& statistics,
                                  Dw& dweight) {
  detail::check_row_gradient<Dw::rank>(x, dy, statistics);
  detail::check_target<detail::row_parameter_gradient<X, Dw>, Dw>();
  detail::require_row_extents(x, dweight, "extent of the gradient of the weight of rms_norm");
  const detail::row_view<Dw::rank, X> rows(x);
  rows.write_gradients(
      [&](auto dgamma) {
        detail::normalize_rows_parameter_gradients<Dw::rank, false>(x, dy, rows, statistics, dgamma,
                                                                    decltype(dgamma){});
      },
      dweight);
}

}  // namespace tessera::op
