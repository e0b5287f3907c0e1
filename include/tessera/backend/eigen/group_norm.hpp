#pragma once

#include <tessera/backend/eigen/batch_norm.hpp>

#include <cmath>

namespace tessera::detail::eigen_kernels {

// Group norm of images: each sample is a matrix [pixels, channels], whose channels are first treated as batch norm does
// and then put together by groups. Statistics are double [samples * groups].

/// The samples of images one after the other.
template <class T>
struct sample_matrices {
  explicit sample_matrices(block<T, 4> images)
      : data(images.data),
        count(images.extents[0]),
        pixels(images.extents[2] * images.extents[3]),
        channels(images.extents[1]) {}

  index_t size() const { return pixels * channels; }
  block<T, 2> operator[](index_t n) const { return {data + n * size(), {pixels, channels}}; }

  T* data;
  index_t count;
  index_t pixels;
  index_t channels;
};

/// The statistics of a sample's groups, repeated for each of its channels.
inline block<double const, 1> by_channel(block<double const, 1> statistic, index_t groups, index_t sample,
                                         index_t channels, double* table) {
  const index_t each = channels / std::max<index_t>(groups, 1);
  for (index_t c = 0; c < channels; ++c) table[c] = statistic.data[sample * groups + c / each];
  return {table, {channels}};
}

/// moments [samples * groups, 3]: count, mean and sum of squared deviations of each group of channels.
template <class T>
void group_norm_moments(block<T const, 4> x, index_t groups, block<double, 2> moments, workspace& scratch) {
  const sample_matrices samples(x);
  const index_t each = samples.channels / std::max<index_t>(groups, 1);
  const auto pixels = static_cast<double>(samples.pixels);
  scratch.split(samples.count, 2 * samples.size(), [&](index_t begin, index_t end, workspace& own) {
    block<double, 2> channel{own.get<double>(4, 3 * samples.channels), {samples.channels, 3}};
    for (index_t n = begin; n < end; ++n) {
      batch_norm_moments<T>(samples[n], channel, own);
      for (index_t g = 0; g < groups; ++g) {
        double const* from = channel.data + 3 * g * each;
        double mean = 0;
        for (index_t c = 0; c < each; ++c) mean += from[3 * c + 1];
        mean /= static_cast<double>(each);
        double m2 = 0;
        for (index_t c = 0; c < each; ++c) {
          const double apart = from[3 * c + 1] - mean;
          m2 += from[3 * c + 2] + pixels * apart * apart;
        }
        double* to = moments.data + 3 * (n * groups + g);
        to[0] = pixels * static_cast<double>(each);
        to[1] = mean;
        to[2] = m2;
      }
    }
  });
}

/// y = (x - mean) * inv_std * gamma + beta.
template <class T>
void group_norm_normalize(operand<T, 4> x, index_t groups, block<double const, 1> mean, block<double const, 1> inv_std,
                          operand<T, 1> gamma, operand<T, 1> beta, block<T, 4> y, workspace& scratch) {
  const sample_matrices from(x);
  const sample_matrices to(y);
  scratch.split(from.count, from.size(), [&](index_t begin, index_t end, workspace& own) {
    double* tables = own.get<double>(4, 2 * from.channels);
    for (index_t n = begin; n < end; ++n)
      batch_norm_normalize<T>(from[n], by_channel(mean, groups, n, from.channels, tables),
                              by_channel(inv_std, groups, n, from.channels, tables + from.channels), gamma, beta, to[n],
                              own);
  });
}

/// sums [2 * samples * groups]: the sum of gamma * dy * xhat of each group, then that of gamma * dy. The gradients of
/// gamma and beta on the way, where these are not empty.
template <class T>
void group_norm_backward_sums(operand<T, 4> x, operand<T, 4> dy, index_t groups, block<double const, 1> mean,
                              block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 1> sums, block<T, 1> dgamma,
                              block<T, 1> dbeta, workspace& scratch) {
  const sample_matrices values(x);
  const sample_matrices gradients(dy);
  const index_t channels = values.channels;
  const index_t each = channels / std::max<index_t>(groups, 1);
  const index_t all = values.count * groups;
  const int parts = scratch.parts(values.count, 2 * values.size());
  double* parameters = scratch.get<double>(7, parts * 2 * channels);
  std::fill_n(parameters, parts * 2 * channels, 0.0);
  scratch.run(parts, [&](int part, workspace& own) {
    double* tables = own.get<double>(4, 2 * channels);
    double* of_part = parameters + part * 2 * channels;
    block<T, 1> channel{own.get<T>(5, 2 * channels), {2 * channels}};
    const interval some = cut({0, values.count}, parts, part);
    for (index_t n = some.begin; n < some.end(); ++n) {
      batch_norm_backward_sums<T>(values[n], gradients[n], by_channel(mean, groups, n, channels, tables),
                                  by_channel(inv_std, groups, n, channels, tables + channels), channel, own);
      for (index_t g = 0; g < groups; ++g) {
        double by_value = 0;
        double plain = 0;
        for (index_t c = g * each; c < (g + 1) * each; ++c) {
          const double factor = factor_at<T>(gamma, c);
          plain += factor * static_cast<double>(channel.data[c]);
          by_value += factor * static_cast<double>(channel.data[channels + c]);
        }
        sums.data[n * groups + g] = static_cast<T>(by_value);
        sums.data[all + n * groups + g] = static_cast<T>(plain);
      }
      for (index_t c = 0; c < 2 * channels; ++c) of_part[c] += static_cast<double>(channel.data[c]);
    }
  });
  for (int part = 1; part < parts; ++part)
    array(parameters, 2 * channels) += array(parameters + part * 2 * channels, 2 * channels);
  for (index_t c = 0; c < dbeta.size(); ++c) dbeta.data[c] = static_cast<T>(parameters[c]);
  for (index_t c = 0; c < dgamma.size(); ++c) dgamma.data[c] = static_cast<T>(parameters[channels + c]);
}

/// dx = inv_std * (gamma * dy - xhat * sum(gamma * dy * xhat) / count - sum(gamma * dy) / count).
template <class T>
void group_norm_backward_input(operand<T, 4> x, operand<T, 4> dy, index_t groups, block<double const, 1> mean,
                               block<double const, 1> inv_std, operand<T, 1> gamma, operand<T, 1> sums, double count,
                               block<T, 4> dx, workspace& scratch) {
  const sample_matrices values(x);
  const sample_matrices gradients(dy);
  const sample_matrices results(dx);
  const index_t channels = values.channels;
  const index_t each = channels / std::max<index_t>(groups, 1);
  const wide_rows wide(values.pixels, channels);
  const index_t w = wide.width;
  const writer<T> write(dx.size(), dx.data == dy.data || dx.data == x.data);
  scratch.split(values.count, values.size(), [&](index_t begin, index_t end, workspace& own) {
    T* tables = own.get<T>(0, 5 * w);
    for (index_t n = begin; n < end; ++n) {
      const index_t first = n * groups;
      double const* scale = inv_std.data + first;
      // dx = slope * dy + ((x - T(mean)) * inv_std) * curve + rest, with everything that is the same for a channel in
      // `rest`.
      const auto curve = [&](index_t g) { return -scale[g] * static_cast<double>(sums.data[first + g]) / count; };
      repeat_columns(channels, wide, tables, [&](index_t c) { return static_cast<T>(mean.data[first + c / each]); });
      repeat_columns(channels, wide, tables + w,
                     [&](index_t c) { return static_cast<T>(scale[c / each] * factor_at<T>(gamma, c)); });
      repeat_columns(channels, wide, tables + 2 * w, [&](index_t c) { return static_cast<T>(curve(c / each)); });
      repeat_columns(channels, wide, tables + 3 * w, [&](index_t c) {
        const index_t g = c / each;
        const double plain = static_cast<double>(sums.data[values.count * groups + first + g]);
        return static_cast<T>(-scale[g] * plain / count -
                              static_cast<double>(remainder_of<T>(mean.data[first + g])) * scale[g] * curve(g));
      });
      repeat_columns(channels, wide, tables + 4 * w, [&](index_t c) { return static_cast<T>(scale[c / each]); });
      for_wide_rows(values.pixels, channels, wide, own, [&](index_t at, index_t size) {
        T const* value = values[n].data + at;
        T const* gradient = gradients[n].data + at;
        write(results[n].data + at, size, [=]<class V>(index_t j) {
          using namespace Eigen::internal;
          const V scaled = pmul(psub(load<V>(value + j), load<V>(tables + j)), load<V>(tables + 4 * w + j));
          const V rest = pmadd(scaled, load<V>(tables + 2 * w + j), load<V>(tables + 3 * w + j));
          return pmadd(load<V>(gradient + j), load<V>(tables + w + j), rest);
        });
      });
    }
  });
}

}  // namespace tessera::detail::eigen_kernels
