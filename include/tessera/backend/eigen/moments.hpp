#pragma once

#include <tessera/backend/eigen/map.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>

namespace tessera::detail::eigen_kernels {

/// Whether a sum of squares that was taken in T is right: false where these are outside its range, and double holds
/// them.
template <class T>
bool holds_squares(double sum) {
  constexpr auto least = 0x1p20 * static_cast<double>(std::numeric_limits<T>::min());
  return std::same_as<T, double> || (sum >= least && std::isfinite(sum));
}

/// Mean and sum of squared deviations.
struct mean_and_squares {
  double mean = 0;
  double m2 = 0;
};

/// Those of values of any size, in double.
template <class T>
mean_and_squares wide_moments(T const* x, index_t count, index_t stride = 1) {
  using Strided = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1> const, Eigen::Unaligned, Eigen::InnerStride<>>;
  const auto values = Strided(x, count, Eigen::InnerStride<>(stride)).template cast<double>();
  const double mean = values.mean();
  return {mean, (values - mean).square().sum()};
}

/// What a rank's moments (count, mean, sum of squared deviations) add to the mean difference of all `count` values from
/// an origin, and to the mean of its square. Origins that are not finite become 0.
template <class M>
void moments_to_sums(block<double const, 2> moments, block<double, 1> origin, double count, block<M, 2> sums) {
  for (index_t r = 0; r < origin.size(); ++r) {
    double const* m = moments.data + 3 * r;
    if (!std::isfinite(origin.data[r])) origin.data[r] = 0;
    const double apart = m[1] - origin.data[r];
    sums.data[2 * r] = static_cast<M>(m[0] / count * apart);
    sums.data[2 * r + 1] = static_cast<M>((m[2] + m[0] * apart * apart) / count);
  }
}

/// The moments of all ranks' values from these means. Moves each origin to the mean found. False where a variance is
/// lost, because the mean is more than three deviations from the origin (so that the variance is a difference of two
/// numbers more than ten times as large) or because its square is outside the range of M.
template <class M>
bool moments_from_sums(block<M const, 2> sums, block<double, 1> origin, double count, double epsilon,
                       block<double, 2> moments) {
  bool kept = true;
  for (index_t r = 0; r < origin.size(); ++r) {
    const auto apart = static_cast<double>(sums.data[2 * r]);
    const auto square = static_cast<double>(sums.data[2 * r + 1]);
    const double variance = square - apart * apart;
    const bool near = apart * apart <= 9 * (variance + epsilon);
    kept = kept && near && holds_squares<M>(variance + epsilon) && holds_squares<M>(square + epsilon);
    origin.data[r] += apart;
    moments.data[3 * r] = count;
    moments.data[3 * r + 1] = origin.data[r];
    moments.data[3 * r + 2] = count * std::max(variance, 0.0);  // NaN stays
  }
  return kept;
}

}  // namespace tessera::detail::eigen_kernels
