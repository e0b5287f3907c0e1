#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>
#include <array>

namespace tessera::detail::eigen_kernels {

/// A dimension that is walked: how many elements, and their distance in what is read and in what is written.
struct walked_dim {
  index_t extent = 1;
  index_t from_step = 0;
  index_t to_step = 0;
};

/// Dimension p of y is dimension `from[p]` of x; both row-major.
template <class T>
void permute(operand<T, 6> x, std::array<int, 6> const& from, block<T, 6> y, workspace& scratch) {
  if (y.size() == 0) return;
  const auto x_steps = strides_of<storage_order::row_major>(x.extents);
  const auto y_steps = strides_of<storage_order::row_major>(y.extents);
  // Dimensions of more than one element, those joined that lie together on both sides.
  std::array<walked_dim, 6> dims{};
  std::size_t count = 0;
  for (std::size_t p = 0; p < 6; ++p) {
    const walked_dim next{y.extents[static_cast<int>(p)], x_steps[static_cast<std::size_t>(from[p])], y_steps[p]};
    if (next.extent == 1) continue;
    if (count > 0 && dims[count - 1].from_step == next.extent * next.from_step)
      dims[count - 1] = {dims[count - 1].extent * next.extent, next.from_step, next.to_step};
    else
      dims[count++] = next;
  }
  // Last stand the dimension that is innermost in x and the one that is innermost in y; where it is the same one, runs
  // are copied, else squares are turned.
  const walked_dim to_inner = count > 0 ? dims[--count] : walked_dim{1, 1, 1};
  walked_dim from_inner{};
  if (to_inner.from_step != 1) {
    const auto found = std::find_if(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count),
                                    [](walked_dim const& d) { return d.from_step == 1; });
    from_inner = *found;
    std::copy(found + 1, dims.begin() + static_cast<std::ptrdiff_t>(count), found);
    --count;
  }
  const auto copy_inner = [&](walked_dim const& rows, walked_dim const& columns, T const* read, T* write) {
    if (rows.from_step == 1) {
      std::copy_n(read, rows.extent, write);
      return;
    }
    // Squares that stay in the first-level cache, so that neither side is walked with a long stride for long.
    constexpr index_t side = 16;
    for (index_t c0 = 0; c0 < columns.extent; c0 += side) {
      const index_t c1 = std::min(columns.extent, c0 + side);
      for (index_t r0 = 0; r0 < rows.extent; r0 += side) {
        const index_t r1 = std::min(rows.extent, r0 + side);
        for (index_t c = c0; c < c1; ++c)
          for (index_t r = r0; r < r1; ++r) write[c * columns.to_step + r] = read[r * rows.from_step + c];
      }
    }
  };
  // The threads share the outermost dimension of y that is walked.
  const walked_dim shared = count > 0 ? dims[0] : to_inner.from_step == 1 ? to_inner : from_inner;
  scratch.split(shared.extent, y.size() / shared.extent, [&](index_t begin, index_t end, workspace&) {
    auto outer = dims;
    walked_dim rows = to_inner;
    walked_dim columns = from_inner;
    (count > 0 ? outer[0] : to_inner.from_step == 1 ? rows : columns).extent = end - begin;
    std::array<index_t, 6> at{};
    index_t read = begin * shared.from_step;
    index_t write = begin * shared.to_step;
    for (;;) {
      copy_inner(rows, columns, x.data + read, y.data + write);
      std::size_t d = count;
      for (; d > 0; --d) {
        walked_dim const& one = outer[d - 1];
        read += one.from_step;
        write += one.to_step;
        if (++at[d - 1] < one.extent) break;
        read -= one.from_step * one.extent;
        write -= one.to_step * one.extent;
        at[d - 1] = 0;
      }
      if (d == 0) return;
    }
  });
}

}  // namespace tessera::detail::eigen_kernels
