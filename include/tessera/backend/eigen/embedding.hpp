#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>
#include <cstdint>

namespace tessera::detail::eigen_kernels {

/// First place whose index is none of `count` ones, -1 where all are right.
inline index_t first_bad_index(block<std::int64_t const, 1> indices, index_t count) {
  for (index_t i = 0; i < indices.size(); ++i)
    if (indices.data[i] < 0 || indices.data[i] >= count) return i;
  return -1;
}

/// y [places, features] = the row of `weight` that each index names; `weight` has the rows from `first` on, and an
/// index of another row gives zeros.
template <class T>
void embedding_forward(block<std::int64_t const, 1> indices, operand<T, 2> weight, index_t first, block<T, 2> y) {
  const index_t rows = weight.extents[0];
  const index_t features = weight.extents[1];
  for (index_t i = 0; i < indices.size(); ++i) {
    const index_t row = indices.data[i] - first;
    T* to = y.data + i * features;
    if (row >= 0 && row < rows)
      std::copy_n(weight.data + row * features, features, to);
    else
      std::fill_n(to, features, T{0});
  }
}

/// dweight [rows, features] = for each row from `first` on the sum of dy over the places whose index names it; zero for
/// `padding`. The places of a row are added in their order, in T for some and then in double, so the result depends on
/// nothing else.
template <class T>
void embedding_backward(block<std::int64_t const, 1> indices, operand<T, 2> dy, index_t first, std::int64_t padding,
                        block<T, 2> dweight, workspace& scratch) {
  constexpr index_t together = 64;
  const index_t rows = dweight.extents[0];
  const index_t features = dweight.extents[1];
  // The places sorted by row: place[begin[r]] to place[begin[r + 1]] are those of row r.
  index_t* begin = scratch.get<index_t>(0, rows + 2);
  index_t* place = scratch.get<index_t>(1, indices.size());
  std::fill_n(begin, rows + 2, index_t{0});
  const auto for_each_place = [&](auto with) {
    for (index_t i = 0; i < indices.size(); ++i) {
      const index_t row = indices.data[i] - first;
      if (row >= 0 && row < rows && indices.data[i] != padding) with(i, row);
    }
  };
  for_each_place([&](index_t, index_t row) { ++begin[row + 2]; });
  for (index_t r = 0; r < rows; ++r) begin[r + 2] += begin[r + 1];
  for_each_place([&](index_t i, index_t row) { place[begin[row + 1]++] = i; });

  // Each thread has some of the features: it adds the same numbers in the same order as one thread does.
  constexpr index_t line = static_cast<index_t>(64 / sizeof(T));
  const index_t lines = (features + line - 1) / line;
  scratch.split(lines, line * (indices.size() + rows), [&](index_t first_line, index_t end_line, workspace& own) {
    const index_t column = first_line * line;
    const index_t width = std::min(features, end_line * line) - column;
    double* total = own.get<double>(2, width);
    for (index_t r = 0; r < rows; ++r) {
      auto sum = array(dweight.data + r * features + column, width);
      const index_t end = begin[r + 1];
      const auto add = [&](index_t from, index_t to) {
        sum.setZero();
        for (index_t p = from; p < to; ++p) sum += array(dy.data + place[p] * features + column, width);
      };
      if (end - begin[r] <= together) {
        add(begin[r], end);
      } else {
        auto all = array(total, width);
        all.setZero();
        for (index_t p = begin[r]; p < end; p += together) {
          add(p, std::min(end, p + together));
          all += sum.template cast<double>();
        }
        sum = all.template cast<T>();
      }
    }
  });
}

}  // namespace tessera::detail::eigen_kernels
