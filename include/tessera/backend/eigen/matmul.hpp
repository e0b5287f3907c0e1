#pragma once

#include <tessera/backend/eigen/product.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>

namespace tessera::detail::eigen_kernels {

/// How many rows of parts to cut a matrix [rows, columns] into that `parts` threads make: parts as square as possible,
/// so that together they read least of both factors.
constexpr int rows_of_parts(int parts, index_t rows, index_t columns) {
  int best = 1;
  for (int r = 1; r <= parts; ++r) {
    if (parts % r != 0 || r > rows || parts / r > columns) continue;
    const auto edges = [&](int across) { return rows * (parts / across) + columns * across; };
    if (edges(r) < edges(best) || parts / best > columns) best = r;
  }
  return best;
}

/// Each thread makes a part of the output, with a blocking of the sums that depends on the part's extents: the last
/// bits depend on the number of threads.
template <class T>
void matmul(operand<T, 2> a, bool transpose_a, operand<T, 2> b, bool transpose_b, block<T, 2> out, bool accumulate,
            workspace& scratch) {
  if (!accumulate) std::fill(out.begin(), out.end(), T{0});
  const index_t m = out.extents[0];
  const index_t n = out.extents[1];
  const index_t k = a.extents[transpose_a ? 0 : 1];
  if (m == 0 || n == 0 || k == 0) return;
  const int parts = scratch.parts(m * n, (k + 15) / 16);
  const int down = rows_of_parts(parts, m, n);
  scratch.run(parts, [&](int part, workspace&) {
    const interval rows = cut({0, m}, down, part % down);
    const interval columns = cut({0, n}, parts / down, part / down);
    const auto sum = spaced(out.data + rows.begin * n + columns.begin, rows.size, columns.size, n);
    const auto add = [&](auto const& left) {
      if (transpose_b)
        add_product(T{1}, left, spaced_transposed(b.data + columns.begin * k, k, columns.size, k), sum);
      else
        add_product(T{1}, left, spaced(b.data + columns.begin, k, columns.size, n), sum);
    };
    if (transpose_a)
      add(spaced_transposed(a.data + rows.begin, rows.size, k, m));
    else
      add(spaced(a.data + rows.begin * k, rows.size, k, k));
  });
}

}  // namespace tessera::detail::eigen_kernels
