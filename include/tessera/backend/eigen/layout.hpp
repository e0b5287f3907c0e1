#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>

namespace tessera::detail::eigen_kernels {

/// Writes `count` row-major matrices of `rows` x `columns` as their transposes.
template <class T>
void transpose_each(T const* from, index_t count, index_t rows, index_t columns, T* to) {
  const index_t size = rows * columns;
  if (rows == 1 || columns == 1) {
    std::copy_n(from, count * size, to);
    return;
  }
  // Squares that stay in the first-level cache, so that neither side is walked with a long stride for long.
  constexpr index_t side = 16;
  for (index_t n = 0; n < count; ++n, from += size, to += size) {
    for (index_t c0 = 0; c0 < columns; c0 += side) {
      const index_t c1 = std::min(columns, c0 + side);
      for (index_t r0 = 0; r0 < rows; r0 += side) {
        const index_t r1 = std::min(rows, r0 + side);
        for (index_t c = c0; c < c1; ++c)
          for (index_t r = r0; r < r1; ++r) to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

/// [N, C, H, W] (channels last in memory) to [N, C * H * W], channel-major.
template <class T>
void flatten(operand<T, 4> x, block<T, 2> y) {
  transpose_each(x.data, x.extents[0], x.extents[2] * x.extents[3], x.extents[1], y.data);
}

/// The inverse of `flatten`.
template <class T>
void unflatten(operand<T, 2> y, block<T, 4> x) {
  transpose_each(y.data, x.extents[0], x.extents[1], x.extents[2] * x.extents[3], x.data);
}

}  // namespace tessera::detail::eigen_kernels
