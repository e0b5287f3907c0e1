#pragma once

#include <tessera/backend/eigen/window_mean.hpp>

namespace tessera::detail::eigen_kernels {

/// The windows of adaptive pooling over whole images, of which the block has a part.
inline mean_windows adaptive_windows(shape<4> const& block, shape<4> const& outputs, image_part const& part,
                                     workspace& scratch) {
  const mean_windows windows = windows_for(outputs, scratch);
  const auto fill = [&](averaged* side, index_t count, int dim, std::size_t of_part) {
    const interval own{part.begins[of_part], block[dim]};
    for (index_t i = 0; i < count; ++i) {
      const interval whole = adaptive_window(i, count, part.extents[of_part]);
      const interval met = intersect(whole, own);
      side[i] = {{met.begin - own.begin, met.size}, whole.size};
    }
  };
  fill(windows.rows, outputs[2], 2, 0);
  fill(windows.columns, outputs[3], 3, 1);
  return windows;
}

template <class T>
void adaptive_avg_pool_forward(operand<T, 4> x, block<T, 4> y, image_part const& part, workspace& scratch) {
  window_means_forward<T>(x, y, adaptive_windows(x.extents, y.extents, part, scratch), scratch);
}

template <class T>
void adaptive_avg_pool_backward(operand<T, 4> dy, block<T, 4> dx, image_part const& part, workspace& scratch) {
  window_means_backward<T>(dy, dx, adaptive_windows(dx.extents, dy.extents, part, scratch), scratch);
}

}  // namespace tessera::detail::eigen_kernels
