#pragma once

#include <tessera/backend/eigen/columns.hpp>
#include <tessera/backend/eigen/window_mean.hpp>
#include <tessera/backend/geometry.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tessera::detail::eigen_kernels {

/// The window positions inside the input: rows `first`, `first + step`, ... below `end`; none if first >= end.
struct window_side {
  index_t first;
  index_t end;
};

inline window_side window_at(index_t out, std::size_t dim, index_t input, pool2d_geometry const& g) {
  const index_t begin = out * g.stride[dim] - g.padding_before[dim];
  const index_t step = g.dilation[dim];
  const index_t skipped = begin < 0 ? (-begin + step - 1) / step : 0;
  return {begin + skipped * step, std::min(input, begin + step * (g.kernel[dim] - 1) + 1)};
}

/// Calls `with(input image, output pixel number, rows, columns)` for every output pixel, image by image.
template <class Call>
void for_windows(shape<4> const& input, shape<4> const& output, pool2d_geometry const& g, Call with) {
  index_t pixel = 0;
  for (index_t n = 0; n < output[0]; ++n)
    for (index_t h = 0; h < output[2]; ++h)
      for (index_t w = 0; w < output[3]; ++w, ++pixel)
        with(n, pixel, window_at(h, 0, input[2], g), window_at(w, 1, input[3], g));
}

// The inner loops are functions of their own so that `__restrict` holds and they become vector code.

/// Takes the larger values and their place. A NaN is larger than any number; of equal values, and of NaNs, the first
/// stays.
template <class T>
void take_larger(T const* __restrict values, std::int32_t place, index_t channels, T* __restrict best,
                 std::int32_t* __restrict where) {
  for (index_t c = 0; c < channels; ++c) {
    const bool larger = !(values[c] <= best[c]) & (best[c] == best[c]);
    best[c] = larger ? values[c] : best[c];
    where[c] = larger ? place : where[c];
  }
}

/// Adds the gradients that belong to a place.
template <class T>
void add_where(T const* __restrict gradient, std::int32_t const* __restrict where, std::int32_t place, index_t channels,
               T* __restrict sum) {
  for (index_t c = 0; c < channels; ++c) sum[c] += where[c] == place ? gradient[c] : T{0};
}

/// A window that meets padding only gives minus infinity and the place -1.
template <class T>
void max_pool2d_forward(operand<T, 4> x, block<T, 4> y, block<std::int32_t, 4> argmax, pool2d_geometry const& g) {
  const index_t channels = x.extents[1];
  const index_t width = x.extents[3];
  const index_t image = channels * x.extents[2] * width;
  for_windows(x.extents, y.extents, g, [&](index_t n, index_t pixel, window_side rows, window_side columns) {
    T* best = y.data + pixel * channels;
    std::int32_t* where = argmax.data + pixel * channels;
    bool first = true;
    for (index_t h = rows.first; h < rows.end; h += g.dilation[0]) {
      for (index_t w = columns.first; w < columns.end; w += g.dilation[1]) {
        T const* values = x.data + n * image + (h * width + w) * channels;
        const auto place = static_cast<std::int32_t>(h * width + w);
        if (first) {
          std::copy_n(values, channels, best);
          std::fill_n(where, channels, place);
          first = false;
        } else {
          take_larger(values, place, channels, best, where);
        }
      }
    }
    if (first) {
      std::fill_n(best, channels, -std::numeric_limits<T>::infinity());
      std::fill_n(where, channels, std::int32_t{-1});
    }
  });
}

template <class T>
void max_pool2d_backward(operand<T, 4> dy, block<std::int32_t const, 4> argmax, block<T, 4> dx,
                         pool2d_geometry const& g) {
  const index_t channels = dx.extents[1];
  const index_t width = dx.extents[3];
  const index_t image = channels * dx.extents[2] * width;
  std::fill(dx.begin(), dx.end(), T{0});
  for_windows(dx.extents, dy.extents, g, [&](index_t n, index_t pixel, window_side rows, window_side columns) {
    // Every position of the window is compared: vector code, where following the places would be scalar.
    for (index_t h = rows.first; h < rows.end; h += g.dilation[0])
      for (index_t w = columns.first; w < columns.end; w += g.dilation[1])
        add_where(dy.data + pixel * channels, argmax.data + pixel * channels, static_cast<std::int32_t>(h * width + w),
                  channels, dx.data + n * image + (h * width + w) * channels);
  });
}

/// The windows of average pooling. What lies beyond the right padding never counts, padding only where asked for.
inline mean_windows average_windows(shape<4> const& input, shape<4> const& output, pool2d_geometry const& g,
                                    workspace& scratch) {
  const mean_windows windows = windows_for(output, scratch);
  const auto fill = [&](averaged* side, std::size_t dim, index_t outputs, index_t extent) {
    for (index_t out = 0; out < outputs; ++out) {
      const window_side inside = window_at(out, dim, extent, g);
      const index_t valid = std::max<index_t>(0, inside.end - inside.first);
      const index_t begin = out * g.stride[dim] - g.padding_before[dim];
      const index_t padded = std::min(begin + g.kernel[dim], extent + g.padding_after[dim]) - begin;
      side[out] = {{inside.first, valid}, g.count_include_pad ? padded : valid};
    }
  };
  fill(windows.rows, 0, output[2], input[2]);
  fill(windows.columns, 1, output[3], input[3]);
  return windows;
}

template <class T>
void avg_pool2d_forward(operand<T, 4> x, block<T, 4> y, pool2d_geometry const& g, workspace& scratch) {
  window_means_forward<T>(x, y, average_windows(x.extents, y.extents, g, scratch), scratch);
}

template <class T>
void avg_pool2d_backward(operand<T, 4> dy, block<T, 4> dx, pool2d_geometry const& g, workspace& scratch) {
  window_means_backward<T>(dy, dx, average_windows(dx.extents, dy.extents, g, scratch), scratch);
}

/// Sum over height and width divided by `count`.
template <class T>
void global_avg_pool_forward(operand<T, 4> x, block<T, 4> y, index_t count, workspace& scratch) {
  const index_t channels = x.extents[1];
  const index_t pixels = x.extents[2] * x.extents[3];
  scratch.split(x.extents[0], pixels * channels, [&](index_t begin, index_t end, workspace& own) {
    double* sums = own.get<double>(2, channels);
    for (index_t n = begin; n < end; ++n) {
      T const* from = x.data + n * pixels * channels;
      sum_columns<T, 1>(
          from, pixels, channels, own,
          [from]<class V>(index_t at, index_t, V* sum) { sum[0] = Eigen::internal::padd(sum[0], load<V>(from + at)); },
          sums);
      for (index_t c = 0; c < channels; ++c)
        y.data[n * channels + c] = static_cast<T>(sums[c] / static_cast<double>(count));
    }
  });
}

template <class T>
void global_avg_pool_backward(operand<T, 4> dy, block<T, 4> dx, index_t count) {
  const index_t channels = dx.extents[1];
  const index_t pixels = dx.extents[2] * dx.extents[3];
  const T share = T{1} / static_cast<T>(count);
  T* to = dx.data;
  for (index_t n = 0; n < dx.extents[0]; ++n)
    for (index_t p = 0; p < pixels; ++p, to += channels)
      array(to, channels) = array(dy.data + n * channels, channels) * share;
}

}  // namespace tessera::detail::eigen_kernels
