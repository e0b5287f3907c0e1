#include "gemm.hpp"

#include <Eigen/Core>

namespace ascend_double {

namespace {

template <int Order>
auto view(matrix const& of, std::int64_t rows, std::int64_t columns) {
  return Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Order> const>(of.values, rows, columns);
}

}  // namespace

void multiply(matrix a, matrix b, std::int64_t m, std::int64_t k, std::int64_t n, float* to, bool adds) {
  Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> result(to, m, n);
  if (!adds) result.setZero();
  if (m == 0 || k == 0 || n == 0) return;
  auto left = [&](auto const& x) {
    if (b.transposed)
      result.noalias() += x * view<Eigen::ColMajor>(b, k, n);
    else
      result.noalias() += x * view<Eigen::RowMajor>(b, k, n);
  };
  if (a.transposed)
    left(view<Eigen::ColMajor>(a, m, k));
  else
    left(view<Eigen::RowMajor>(a, m, k));
}

}  // namespace ascend_double
