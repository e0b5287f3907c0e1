#pragma once

#include <tessera/backend/eigen/writer.hpp>
#include <tessera/backend/geometry.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>

namespace tessera::detail::eigen_kernels {

/// What one output averages along height or along width: its places in the block, and how many its mean is of.
struct averaged {
  interval own;
  index_t count = 0;
};

/// The windows of a pooling by means: the pixel (i, j) of the output is the sum over `rows[i].own` and `columns[j].own`
/// divided by both counts; 0 where a count is. From window to window neither begin nor end goes back.
struct mean_windows {
  averaged* rows;     ///< one for each row of the output
  averaged* columns;  ///< one for each column

  double share(index_t i, index_t j) const {
    const index_t count = rows[i].count * columns[j].count;
    return count == 0 ? 0.0 : 1.0 / static_cast<double>(count);
  }
};

/// Memory for the windows of `outputs`, to be filled in. Takes slot 0.
inline mean_windows windows_for(shape<4> const& outputs, workspace& scratch) {
  auto* all = scratch.get<averaged>(0, outputs[2] + outputs[3]);
  return {all, all + outputs[2]};
}

/// Pixels that are added in T before their sums go to double.
inline constexpr index_t pixels_summed_together = 64;

/// Calls `with(channel, sum)` with the sums of `columns` neighbouring pixels of `rows` rows: packets, or numbers for
/// the few last channels.
template <class T, class With>
void add_pixels(T const* from, index_t row, index_t rows, index_t columns, index_t channels, With with) {
  using packet = typename Eigen::internal::packet_traits<T>::type;
  constexpr index_t width = Eigen::internal::packet_traits<T>::size;
  const auto add = [&]<class V, index_t Count>(V, std::integral_constant<index_t, Count>, index_t c) {
    constexpr index_t step = std::is_same_v<V, T> ? 1 : width;
    V sums[Count];
    for (V& sum : sums) sum = Eigen::internal::pset1<V>(T{0});
    for (index_t h = 0; h < rows; ++h) {
      T const* at = from + h * row + c;
      for (index_t w = 0; w < columns; ++w, at += channels)
        for (index_t k = 0; k < Count; ++k) sums[k] = Eigen::internal::padd(sums[k], load<V>(at + k * step));
    }
    for (index_t k = 0; k < Count; ++k) with(c + k * step, sums[k]);
  };
  index_t c = 0;
  for (; c + 4 * width <= channels; c += 4 * width) add(packet{}, std::integral_constant<index_t, 4>{}, c);
  for (; c + width <= channels; c += width) add(packet{}, std::integral_constant<index_t, 1>{}, c);
  for (; c < channels; ++c) add(T{}, std::integral_constant<index_t, 1>{}, c);
}

/// y = the means of the windows.
template <class T>
void window_means_forward(operand<T, 4> x, block<T, 4> y, mean_windows const& windows, workspace& scratch) {
  using namespace Eigen::internal;
  if (x.empty()) {
    std::fill(y.begin(), y.end(), T{0});
    return;
  }
  const index_t channels = x.extents[1];
  const index_t row = x.extents[3] * channels;
  const index_t outputs = y.extents[3];
  const index_t size = outputs * channels;
  double* totals = scratch.get<double>(1, size);
  T* partial = scratch.get<T>(2, size);
  index_t widest = 0;
  for (index_t j = 0; j < outputs; ++j) widest = std::max(widest, windows.columns[j].own.size);
  T* to = y.data;
  for (index_t n = 0; n < y.extents[0]; ++n)
    for (index_t i = 0; i < y.extents[2]; ++i, to += size) {
      const interval rows = windows.rows[i].own;
      T const* from = x.data + (n * x.extents[2] + rows.begin) * row;
      if (rows.size * widest <= pixels_summed_together) {
        for (index_t j = 0; j < outputs; ++j) {
          const interval columns = windows.columns[j].own;
          add_pixels(from + columns.begin * channels, row, rows.size, columns.size, channels,
                     [mean = to + j * channels, share = static_cast<T>(windows.share(i, j))]<class V>(
                         index_t c, V const& sum) { pstoreu(mean + c, pmul(sum, pset1<V>(share))); });
        }
        continue;
      }
      // Large windows side by side: memory is read in its order, a row of the input at a time.
      std::fill_n(totals, size, 0.0);
      std::fill_n(partial, size, T{0});
      const index_t together = std::max<index_t>(pixels_summed_together / widest, 1);
      for (index_t h = 0; h < rows.size; ++h, from += row) {
        for (index_t j = 0; j < outputs; ++j) {
          const interval columns = windows.columns[j].own;
          for (index_t w = 0; w < columns.size; w += pixels_summed_together)
            add_pixels(from + (columns.begin + w) * channels, row, 1,
                       std::min(pixels_summed_together, columns.size - w), channels,
                       [some = partial + j * channels]<class V>(index_t c, V const& sum) {
                         pstoreu(some + c, padd(load<V>(some + c), sum));
                       });
        }
        if ((h + 1) % together != 0 && h + 1 != rows.size) continue;
        for (index_t k = 0; k < size; ++k) {
          totals[k] += static_cast<double>(partial[k]);
          partial[k] = 0;
        }
      }
      for (index_t j = 0; j < outputs; ++j) {
        const double share = windows.share(i, j);
        for (index_t c = j * channels; c < (j + 1) * channels; ++c) to[c] = static_cast<T>(totals[c] * share);
      }
    }
}

/// dx = the sum of the gradients of all windows that a pixel is in, by their shares. Each pixel is written once.
template <class T>
void window_means_backward(operand<T, 4> dy, block<T, 4> dx, mean_windows const& windows, workspace& scratch) {
  using namespace Eigen::internal;
  if (dx.empty()) return;
  const index_t channels = dx.extents[1];
  const index_t height = dy.extents[2];
  const index_t width = dy.extents[3];
  T* shares = scratch.get<T>(1, height * width);
  for (index_t i = 0; i < height; ++i)
    for (index_t j = 0; j < width; ++j) shares[i * width + j] = static_cast<T>(windows.share(i, j));
  // Moves on to the windows that place `at` is in.
  const auto advance = [](averaged const* side, index_t outputs, index_t at, interval& in) {
    index_t end = in.end();
    while (in.begin < outputs && side[in.begin].own.end() <= at) ++in.begin;
    while (end < outputs && side[end].own.begin <= at) ++end;
    in.size = std::max<index_t>(end - in.begin, 0);
  };
  const writer<T> write(dx.size(), false);
  T* to = dx.data;
  for (index_t n = 0; n < dx.extents[0]; ++n) {
    T const* const image = dy.data + n * height * width * channels;
    interval rows;
    for (index_t h = 0; h < dx.extents[2]; ++h) {
      advance(windows.rows, height, h, rows);
      interval columns;
      for (index_t w = 0; w < dx.extents[3]; ++w, to += channels) {
        advance(windows.columns, width, w, columns);
        const index_t first = rows.begin * width + columns.begin;
        if (rows.size == 1 && columns.size == 1) {
          write(to, channels, [from = image + first * channels, share = shares[first]]<class V>(index_t c) {
            return pmul(load<V>(from + c), pset1<V>(share));
          });
          continue;
        }
        write(to, channels, [=]<class V>(index_t c) {
          V sum = pset1<V>(T{0});
          for (index_t i = 0; i < rows.size; ++i)
            for (index_t j = 0; j < columns.size; ++j) {
              const index_t at = first + i * width + j;
              sum = pmadd(load<V>(image + at * channels + c), pset1<V>(shares[at]), sum);
            }
          return sum;
        });
      }
    }
  }
}

}  // namespace tessera::detail::eigen_kernels
