#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/geometry.hpp>
#include <tessera/backend/settings.hpp>

namespace tessera::detail::eigen_kernels {

/// Calls `with(image, output pixel, row, columns, share)` for each row of each window that this block has: `columns` of
/// the block's `row` belong to the output pixel, each with the weight `share`.
template <class With>
void for_adaptive_windows(shape<4> const& block, shape<4> const& outputs, image_part const& part, With with) {
  for (index_t n = 0; n < block[0]; ++n)
    for (index_t i = 0; i < outputs[2]; ++i) {
      const interval rows = adaptive_window(i, outputs[2], part.extents[0]);
      const interval own_rows = intersect(rows, {part.begins[0], block[2]});
      for (index_t j = 0; j < outputs[3]; ++j) {
        const interval columns = adaptive_window(j, outputs[3], part.extents[1]);
        const interval own_columns = intersect(columns, {part.begins[1], block[3]});
        for (index_t h = own_rows.begin; h < own_rows.end(); ++h)
          with(n, (n * outputs[2] + i) * outputs[3] + j, h - part.begins[0],
               interval{own_columns.begin - part.begins[1], own_columns.size}, rows.size * columns.size);
      }
    }
}

template <class T>
void adaptive_avg_pool_forward(operand<T, 4> x, block<T, 4> y, image_part const& part) {
  const index_t channels = y.extents[1];
  const index_t width = x.extents[3];
  std::fill(y.begin(), y.end(), T{0});
  for_adaptive_windows(x.extents, y.extents, part,
                       [&](index_t n, index_t pixel, index_t row, interval columns, index_t count) {
                         auto mean = array(y.data + pixel * channels, channels);
                         const T share = T{1} / static_cast<T>(count);
                         T const* from = x.data + ((n * x.extents[2] + row) * width + columns.begin) * channels;
                         for (index_t w = 0; w < columns.size; ++w)
                           mean += array(from + w * channels, channels) * share;
                       });
}

template <class T>
void adaptive_avg_pool_backward(operand<T, 4> dy, block<T, 4> dx, image_part const& part) {
  const index_t channels = dx.extents[1];
  const index_t width = dx.extents[3];
  std::fill(dx.begin(), dx.end(), T{0});
  for_adaptive_windows(dx.extents, dy.extents, part,
                       [&](index_t n, index_t pixel, index_t row, interval columns, index_t count) {
                         const auto gradient = array(dy.data + pixel * channels, channels) / static_cast<T>(count);
                         T* to = dx.data + ((n * dx.extents[2] + row) * width + columns.begin) * channels;
                         for (index_t w = 0; w < columns.size; ++w) array(to + w * channels, channels) += gradient;
                       });
}

}  // namespace tessera::detail::eigen_kernels
