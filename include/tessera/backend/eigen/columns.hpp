#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>

namespace tessera::detail::eigen_kernels {

/// A row-major matrix whose few columns are repeated until a row is worth a loop: `repeat` rows are walked as one.
///
/// With 16 channels a loop over one row is all overhead; eight rows at once are 128 neighbours in memory.
struct wide_rows {
  index repeat;  ///< rows walked together
  index width;   ///< elements of these
  index count;   ///< wide rows; up to `repeat - 1` plain rows follow them

  wide_rows(index rows, index columns) {
    repeat = columns == 0 ? 1 : std::clamp<index>(128 / columns, 1, std::max<index>(rows, 1));
    width = repeat * columns;
    count = rows / repeat;
  }
};

/// Calls `with(row pointer offset, elements)` for every wide row, then once for the rows that are left.
template <class Call>
void for_wide_rows(index rows, index columns, wide_rows wide, Call with) {
  for (index r = 0; r < wide.count; ++r) with(r * wide.width, wide.width);
  const index rest = rows * columns - wide.count * wide.width;
  if (rest > 0) with(wide.count * wide.width, rest);
}

/// Sums `terms(offset, column)` down the columns of a matrix into `sums`, `Terms` sums at once.
///
/// `add(offset, j, partial)` adds the element at `offset + j`, which lies in repeated column j, to `partial`.
/// Partial sums of four wide rows are formed in `Inner`, everything else in double.
template <int Terms, class Inner, class Add>
void sum_columns(index rows, index columns, workspace& scratch, Add add, double* sums) {
  const wide_rows wide(rows, columns);
  double* __restrict total = scratch.get<double>(3, Terms * wide.width);
  std::fill_n(total, Terms * wide.width, 0.0);
  index r = 0;
  for (; r + 4 <= wide.count; r += 4) {
    for (index j = 0; j < wide.width; ++j) {
      Inner partial[Terms] = {};
      for (int four = 0; four < 4; ++four) add((r + four) * wide.width + j, j, partial);
      for (int t = 0; t < Terms; ++t) total[t * wide.width + j] += static_cast<double>(partial[t]);
    }
  }
  const auto add_row = [&](index offset, index size) {
    for (index j = 0; j < size; ++j) {
      Inner partial[Terms] = {};
      add(offset + j, j, partial);
      for (int t = 0; t < Terms; ++t) total[t * wide.width + j] += static_cast<double>(partial[t]);
    }
  };
  for (; r < wide.count; ++r) add_row(r * wide.width, wide.width);
  add_row(wide.count * wide.width, rows * columns - wide.count * wide.width);
  for (int t = 0; t < Terms; ++t) {
    for (index c = 0; c < columns; ++c) {
      double sum = 0;
      for (index k = 0; k < wide.repeat; ++k) sum += total[t * wide.width + k * columns + c];
      sums[t * columns + c] = sum;
    }
  }
}

/// Fills `table` with `wide.repeat` copies of `of(column)`.
template <class T, class Of>
void repeat_columns(index columns, wide_rows wide, T* table, Of of) {
  for (index c = 0; c < columns; ++c) table[c] = of(c);
  for (index k = 1; k < wide.repeat; ++k) std::copy_n(table, columns, table + k * columns);
}

template <class T>
void add_bias(block<T, 2> y, operand<T, 1> bias, workspace& scratch) {
  const index columns = y.extents[1];
  const wide_rows wide(y.extents[0], columns);
  T* table = scratch.get<T>(0, wide.width);
  repeat_columns(columns, wide, table, [&](index c) { return bias.data[c]; });
  for_wide_rows(y.extents[0], columns, wide,
                [&](index at, index size) { array(y.data + at, size) += array(table, size); });
}

template <class T>
void sum_rows(operand<T, 2> dy, block<T, 1> out, workspace& scratch) {
  const index columns = dy.extents[1];
  double* sums = scratch.get<double>(2, columns);
  T const* from = dy.data;
  sum_columns<1, T>(
      dy.extents[0], columns, scratch, [from](index at, index, T* sum) { sum[0] += from[at]; }, sums);
  for (index c = 0; c < columns; ++c) out.data[c] = static_cast<T>(sums[c]);
}

}  // namespace tessera::detail::eigen_kernels
