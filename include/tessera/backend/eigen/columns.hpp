#pragma once

#include <tessera/backend/eigen/writer.hpp>
#include <tessera/backend/progress.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>
#include <cstdint>

namespace tessera::detail::eigen_kernels {

/// A row-major matrix whose few columns are repeated until a row is worth a loop: `repeat` rows are walked as one.
///
/// With 16 channels a loop over one row is all overhead; 32 rows at once are 512 neighbours in memory.
struct wide_rows {
  index_t repeat;  ///< rows walked together
  index_t width;   ///< elements of these
  index_t count;   ///< wide rows; up to `repeat - 1` plain rows follow them

  wide_rows(index_t rows, index_t columns) {
    repeat = columns == 0 ? 1 : std::clamp<index_t>(512 / columns, 1, std::max<index_t>(rows, 1));
    width = repeat * columns;
    count = rows / repeat;
  }
};

/// Calls `with(row pointer offset, elements)` for every wide row, then once for the rows that are left; on the threads
/// of the workspace.
template <class Call>
void for_wide_rows(index_t rows, index_t columns, wide_rows wide, workspace& scratch, Call with) {
  scratch.split(wide.count, wide.width, [&](index_t begin, index_t end, workspace&) {
    for (index_t r = begin; r < end; ++r) {
      with(r * wide.width, wide.width);
      make_progress();
    }
  });
  const index_t rest = rows * columns - wide.count * wide.width;
  if (rest > 0) with(wide.count * wide.width, rest);
}

/// Wide rows that are summed in T before the sums go to double.
inline constexpr index_t rows_summed_together = 64;

/// `Terms` sums down the columns of a matrix, all rows of `sums` [Terms, columns].
///
/// `add(offset, j, partial)` adds the elements from `offset` on, which begin at column j of the wide row, to their
/// `Terms` partial sums; these are packets, or numbers where fewer elements than a packet are left (see `load`).
/// `fold(j, rows, partial, total)` adds the sums of some rows to the totals. `data` is what is walked. Rows are walked
/// one after the other, each once: several at once, or a look at the rows ahead, are up to twice as slow from memory.
/// On the calling thread.
template <class T, index_t Terms, class Add, class Fold>
void sum_columns(T const* data, index_t rows, index_t columns, workspace& scratch, Add add, Fold fold, double* sums) {
  using packet = typename Eigen::internal::packet_traits<T>::type;
  constexpr index_t packet_size = Eigen::internal::packet_traits<T>::size;
  constexpr auto terms = static_cast<std::size_t>(Terms);
  const wide_rows wide(rows, columns);
  const index_t w = wide.width;
  constexpr index_t page = 4096 / static_cast<index_t>(sizeof(T));
  double* total = scratch.get<double>(3, 2 * Terms * w + page);
  // A processor takes loads for dependent on earlier stores a multiple of 4 KiB away: the partial sums lie half a wide
  // row apart from the data, modulo that.
  T* partial = reinterpret_cast<T*>(total + Terms * w);
  const auto place = [](T const* p) { return static_cast<index_t>(reinterpret_cast<std::uintptr_t>(p) / sizeof(T)); };
  partial += (place(data) % page + w / 2 + page - place(partial) % page) % page;
  std::fill_n(total, Terms * w, 0.0);
  const auto add_one = [&]<class V>(V, index_t row, index_t j) {
    V sum[terms];
    for (index_t t = 0; t < Terms; ++t) sum[t] = load<V>(partial + t * w + j);
    add(row + j, j, sum);
    for (index_t t = 0; t < Terms; ++t) Eigen::internal::pstoreu(partial + t * w + j, sum[t]);
  };
  const auto add_rows = [&](index_t first, index_t count, index_t size) {
    std::fill_n(partial, Terms * w, T{0});
    for (index_t r = 0; r < count; ++r) {
      index_t j = 0;
      for (; j + packet_size <= size; j += packet_size) add_one(packet{}, first + r * w, j);
      for (; j < size; ++j) add_one(T{}, first + r * w, j);
    }
    for (index_t j = 0; j < size; ++j) {
      double element[terms];
      for (index_t t = 0; t < Terms; ++t) element[t] = static_cast<double>(partial[t * w + j]);
      double of_column[terms];
      for (index_t t = 0; t < Terms; ++t) of_column[t] = total[t * w + j];
      fold(j, static_cast<double>(count), element, of_column);
      for (index_t t = 0; t < Terms; ++t) total[t * w + j] = of_column[t];
    }
    make_progress();
  };
  for (index_t r = 0; r < wide.count; r += rows_summed_together)
    add_rows(r * w, std::min(rows_summed_together, wide.count - r), w);
  const index_t rest = rows * columns - wide.count * w;
  if (rest > 0) add_rows(wide.count * w, 1, rest);
  for (index_t t = 0; t < Terms; ++t) {
    for (index_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (index_t k = c; k < w; k += columns) sum += total[t * w + k];
      sums[t * columns + c] = sum;
    }
  }
}

/// The same for plain sums, on the threads of the workspace: the sums of their rows are added in row order, so the last
/// bits depend on the number of threads and on nothing else.
template <class T, index_t Terms, class Add>
void sum_columns(T const* data, index_t rows, index_t columns, workspace& scratch, Add add, double* sums) {
  const index_t size = Terms * columns;
  const int parts = scratch.parts(rows, Terms * columns);
  double* of_parts = parts == 1 ? sums : scratch.get<double>(6, parts * size);
  scratch.run(parts, [&](int part, workspace& own) {
    const interval some = cut({0, rows}, parts, part);
    const index_t first = some.begin * columns;
    sum_columns<T, Terms>(
        data + first, some.size, columns, own,
        [first, add]<class V>(index_t at, index_t j, V* sum) { add(first + at, j, sum); },
        [](index_t, double, double const* partial, double* total) {
          for (index_t t = 0; t < Terms; ++t) total[t] += partial[t];
        },
        of_parts + part * size);
  });
  if (parts == 1) return;
  std::copy_n(of_parts, size, sums);
  for (int part = 1; part < parts; ++part) array(sums, size) += array(of_parts + part * size, size);
}

/// Fills `table` with `wide.repeat` copies of `of(column)`.
template <class T, class Of>
void repeat_columns(index_t columns, wide_rows wide, T* table, Of of) {
  for (index_t c = 0; c < columns; ++c) table[c] = of(c);
  for (index_t k = 1; k < wide.repeat; ++k) std::copy_n(table, columns, table + k * columns);
}

template <class T>
void add_bias(block<T, 2> y, operand<T, 1> bias, workspace& scratch) {
  const index_t columns = y.extents[1];
  const wide_rows wide(y.extents[0], columns);
  T* table = scratch.get<T>(0, wide.width);
  repeat_columns(columns, wide, table, [&](index_t c) { return bias.data[c]; });
  for_wide_rows(y.extents[0], columns, wide, scratch,
                [&](index_t at, index_t size) { array(y.data + at, size) += array(table, size); });
}

template <class T>
void sum_rows(operand<T, 2> dy, block<T, 1> out, workspace& scratch) {
  const index_t columns = dy.extents[1];
  double* sums = scratch.get<double>(2, columns);
  T const* from = dy.data;
  sum_columns<T, 1>(
      from, dy.extents[0], columns, scratch,
      [from]<class V>(index_t at, index_t, V* sum) { sum[0] = Eigen::internal::padd(sum[0], load<V>(from + at)); },
      sums);
  for (index_t c = 0; c < columns; ++c) out.data[c] = static_cast<T>(sums[c]);
}

}  // namespace tessera::detail::eigen_kernels
