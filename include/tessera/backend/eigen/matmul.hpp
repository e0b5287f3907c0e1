#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>

namespace tessera::detail::eigen_kernels {

template <class T>
void matmul(operand<T, 2> a, bool transpose_a, operand<T, 2> b, bool transpose_b, block<T, 2> out, bool accumulate) {
  if (!accumulate) std::fill(out.begin(), out.end(), T{0});
  const index_t m = out.extents[0];
  const index_t n = out.extents[1];
  const index_t k = a.extents[transpose_a ? 0 : 1];
  if (m == 0 || n == 0 || k == 0) return;
  auto sum = matrix(out.data, m, n);
  const auto add = [&](auto const& left) {
    if (transpose_b)
      sum.noalias() += left * transposed(b.data, k, n);
    else
      sum.noalias() += left * matrix(b.data, k, n);
  };
  if (transpose_a)
    add(transposed(a.data, m, k));
  else
    add(matrix(a.data, m, k));
}

}  // namespace tessera::detail::eigen_kernels
