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

/// Wide rows that are summed in T before the sums go to double.
inline constexpr index rows_summed_together = 32;

/// `Terms` sums down the columns of a matrix, all rows of `sums` [Terms, columns].
///
/// `start(offset)` is called before the wide rows that begin at `offset` are walked; `add(offset, j, partial)` adds the
/// element at `offset`, in column j of the wide row, to its `Terms` partial sums; `fold(j, rows, partial, total)` adds
/// these of some rows to the totals. Rows are walked one after the other: several at once are twice as slow from
/// memory.
template <class T, index Terms, class Start, class Add, class Fold>
void sum_columns(index rows, index columns, workspace& scratch, Start start, Add add, Fold fold, double* sums) {
  constexpr auto terms = static_cast<std::size_t>(Terms);
  const wide_rows wide(rows, columns);
  const index w = wide.width;
  double* __restrict total = scratch.get<double>(3, 2 * Terms * w);
  T* __restrict partial = reinterpret_cast<T*>(total + Terms * w);
  std::fill_n(total, Terms * w, 0.0);
  const auto add_rows = [&](index first, index count, index size) {
    start(first);
    std::fill_n(partial, Terms * w, T{0});
    for (index r = 0; r < count; ++r) {
      for (index j = 0; j < size; ++j) {
        T element[terms];
        for (index t = 0; t < Terms; ++t) element[t] = partial[t * w + j];
        add(first + r * w + j, j, element);
        for (index t = 0; t < Terms; ++t) partial[t * w + j] = element[t];
      }
    }
    for (index j = 0; j < size; ++j) {
      double element[terms];
      for (index t = 0; t < Terms; ++t) element[t] = static_cast<double>(partial[t * w + j]);
      double of_column[terms];
      for (index t = 0; t < Terms; ++t) of_column[t] = total[t * w + j];
      fold(j, static_cast<double>(count), element, of_column);
      for (index t = 0; t < Terms; ++t) total[t * w + j] = of_column[t];
    }
  };
  for (index r = 0; r < wide.count; r += rows_summed_together)
    add_rows(r * w, std::min(rows_summed_together, wide.count - r), w);
  const index rest = rows * columns - wide.count * w;
  if (rest > 0) add_rows(wide.count * w, 1, rest);
  for (index t = 0; t < Terms; ++t) {
    for (index c = 0; c < columns; ++c) {
      double sum = 0;
      for (index k = c; k < w; k += columns) sum += total[t * w + k];
      sums[t * columns + c] = sum;
    }
  }
}

/// The same for plain sums.
template <class T, index Terms, class Add>
void sum_columns(index rows, index columns, workspace& scratch, Add add, double* sums) {
  sum_columns<T, Terms>(
      rows, columns, scratch, [](index) {}, add,
      [](index, double, double const* partial, double* total) {
        for (index t = 0; t < Terms; ++t) total[t] += partial[t];
      },
      sums);
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
  sum_columns<T, 1>(
      dy.extents[0], columns, scratch, [from](index at, index, T* sum) { sum[0] += from[at]; }, sums);
  for (index c = 0; c < columns; ++c) out.data[c] = static_cast<T>(sums[c]);
}

}  // namespace tessera::detail::eigen_kernels
