#pragma once

#include <tessera/backend/eigen/workspace.hpp>

#include <Eigen/Core>

#include <type_traits>

namespace tessera::detail::eigen_kernels {

template <class T, class Other>
using like = std::conditional_t<std::is_const_v<T>, Other const, Other>;

/// Elements in a row as an Eigen array: explicit vector code at any optimisation level, safe in place.
template <class T>
auto array(T* data, index_t size) {
  return Eigen::Map<like<T, Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>>>(data, size);
}
template <class T, int Rank>
auto array(block<T, Rank> b) {
  return array(b.data, b.size());
}

/// A row-major matrix.
template <class T>
auto matrix(T* data, index_t rows, index_t columns) {
  return Eigen::Map<like<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>>(
      data, rows, columns);
}
/// The transpose of a row-major matrix of extents `columns` x `rows`, without a transpose expression.
template <class T>
auto transposed(T* data, index_t rows, index_t columns) {
  return Eigen::Map<like<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>>>(
      data, rows, columns);
}

/// A row-major matrix whose rows are `row` elements apart.
template <class T>
auto spaced(T* data, index_t rows, index_t columns, index_t row) {
  using matrix_type = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<like<T, matrix_type>, 0, Eigen::OuterStride<>>(data, rows, columns, Eigen::OuterStride<>(row));
}
/// The transpose of such a matrix, which has the extents `columns` x `rows`.
template <class T>
auto spaced_transposed(T* data, index_t rows, index_t columns, index_t row) {
  using matrix_type = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  return Eigen::Map<like<T, matrix_type>, 0, Eigen::OuterStride<>>(data, rows, columns, Eigen::OuterStride<>(row));
}

/// The larger of two arrays, element by element; NaN where either is NaN.
template <class A, class B>
auto larger(Eigen::ArrayBase<A> const& a, Eigen::ArrayBase<B> const& b) {
  using scalar = typename A::Scalar;
  return a.binaryExpr(b.derived(), Eigen::internal::scalar_max_op<scalar, scalar, Eigen::PropagateNaN>());
}

}  // namespace tessera::detail::eigen_kernels
