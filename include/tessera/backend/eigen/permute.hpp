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
void permute(operand<T, 6> x, std::array<int, 6> const& from, block<T, 6> y) {
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
  const auto copy_inner = [&](T const* read, T* write) {
    if (to_inner.from_step == 1) {
      std::copy_n(read, to_inner.extent, write);
      return;
    }
    // Squares that stay in the first-level cache, so that neither side is walked with a long stride for long.
    constexpr index_t side = 16;
    for (index_t c0 = 0; c0 < from_inner.extent; c0 += side) {
      const index_t c1 = std::min(from_inner.extent, c0 + side);
      for (index_t r0 = 0; r0 < to_inner.extent; r0 += side) {
        const index_t r1 = std::min(to_inner.extent, r0 + side);
        for (index_t c = c0; c < c1; ++c)
          for (index_t r = r0; r < r1; ++r) write[c * from_inner.to_step + r] = read[r * to_inner.from_step + c];
      }
    }
  };
  std::array<index_t, 6> at{};
  index_t read = 0;
  index_t write = 0;
  for (;;) {
    copy_inner(x.data + read, y.data + write);
    std::size_t d = count;
    for (; d > 0; --d) {
      walked_dim const& outer = dims[d - 1];
      read += outer.from_step;
      write += outer.to_step;
      if (++at[d - 1] < outer.extent) break;
      read -= outer.from_step * outer.extent;
      write -= outer.to_step * outer.extent;
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace tessera::detail::eigen_kernels
