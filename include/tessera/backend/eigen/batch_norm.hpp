#pragma once

#include <tessera/backend/eigen/columns.hpp>
#include <tessera/backend/eigen/moments.hpp>

#include <cmath>

namespace tessera::detail::eigen_kernels {

// Statistics are kept in double, whatever the data are: in float a mean of 1e4 with a deviation of 1e-2 is lost. A
// kernel that needs the mean in T takes it as two numbers, T(mean) and the rest.

/// Makes the (count, mean, sum of squared deviations) of a set those of its union with another one, which is not empty
/// (T. Chan, G. Golub and R. LeVeque, 1979).
inline void merge_moments(double* set, double const* other) {
  const double count = set[0] + other[0];
  const double apart = other[1] - set[1];
  const double share = other[0] / count;
  set[2] += other[2] + apart * apart * set[0] * share;
  set[1] += apart * share;
  set[0] = count;
}

/// (count, mean, sum of squared deviations) per channel, in one pass.
///
/// Some rows at a time are summed as differences from the mean of those before them (at first, from the median of
/// three), so that nothing large cancels in T; in double the sums are moved to differences from the first row of all.
template <class T>
void batch_norm_moments(block<T const, 2> x, block<double, 2> moments, workspace& scratch) {
  const index_t rows = x.extents[0];
  const index_t columns = x.extents[1];
  if (x.empty()) {
    std::fill(moments.begin(), moments.end(), 0.0);
    return;
  }
  if (const int parts = scratch.parts(rows, 2 * columns); parts > 1) {
    // Those of each thread's rows are merged in row order.
    double* of_parts = scratch.get<double>(6, parts * moments.size());
    const auto of_part = [&](int part) -> block<double, 2> {
      return {of_parts + part * moments.size(), moments.extents};
    };
    scratch.run(parts, [&](int part, workspace& own) {
      const interval some = cut({0, rows}, parts, part);
      batch_norm_moments<T>(outer_part(x, some.begin, some.end()), of_part(part), own);
    });
    std::copy_n(of_parts, moments.size(), moments.data);
    for (int part = 1; part < parts; ++part)
      for (index_t c = 0; c < moments.size(); c += 3) merge_moments(moments.data + c, of_part(part).data + c);
    return;
  }
  const wide_rows wide(rows, columns);
  double* origin = scratch.get<double>(0, wide.width);
  repeat_columns(columns, wide, origin, [&](index_t c) { return static_cast<double>(x.data[c]); });
  T* near = scratch.get<T>(1, wide.width);
  repeat_columns(columns, wide, near, [&](index_t c) {
    const T a = x.data[c];
    const T b = x.data[std::min<index_t>(1, rows - 1) * columns + c];
    const T d = x.data[std::min<index_t>(2, rows - 1) * columns + c];
    return std::max(std::min(a, b), std::min(std::max(a, b), d));
  });
  double* sums = scratch.get<double>(2, 2 * columns);
  sum_columns<T, 2>(
      x.data, rows, columns, scratch,
      [from = x.data, near]<class V>(index_t at, index_t j, V* sum) {
        using namespace Eigen::internal;
        const V d = psub(load<V>(from + at), load<V>(near + j));
        sum[0] = padd(sum[0], d);
        sum[1] = pmadd(d, d, sum[1]);
      },
      [near, origin](index_t j, double count, double const* partial, double* total) {
        const double moved = static_cast<double>(near[j]) - origin[j];
        total[0] += partial[0] + count * moved;
        total[1] += partial[1] + moved * (2 * partial[0] + count * moved);
        near[j] += static_cast<T>(partial[0] * (1 / count));
      },
      sums);
  const auto n = static_cast<double>(rows);
  for (index_t c = 0; c < columns; ++c) {
    const double from_origin = sums[c] / n;
    mean_and_squares column{origin[c] + from_origin, std::max(0.0, sums[columns + c] - from_origin * sums[c])};
    if (!holds_squares<T>(sums[columns + c])) column = wide_moments(x.data + c, rows, columns);
    moments.data[3 * c] = n;
    moments.data[3 * c + 1] = column.mean;
    moments.data[3 * c + 2] = column.m2;
  }
}

/// Mean and 1 / sqrt(biased variance + epsilon) from moments.
inline void batch_norm_finish(block<double const, 2> moments, double epsilon, block<double, 1> mean,
                              block<double, 1> inv_std) {
  for (index_t c = 0; c < mean.size(); ++c) {
    mean.data[c] = moments.data[3 * c + 1];
    inv_std.data[c] = 1 / std::sqrt(moments.data[3 * c + 2] / moments.data[3 * c] + epsilon);
  }
}

/// Running statistics r = (1 - momentum) r + momentum * batch, with the unbiased variance.
template <class T>
void batch_norm_update_running(block<double const, 2> moments, double momentum, block<T, 1> mean,
                               block<T, 1> variance) {
  for (index_t c = 0; c < mean.size(); ++c) {
    double const* m = moments.data + 3 * c;
    mean.data[c] = static_cast<T>((1 - momentum) * static_cast<double>(mean.data[c]) + momentum * m[1]);
    variance.data[c] =
        static_cast<T>((1 - momentum) * static_cast<double>(variance.data[c]) + momentum * (m[2] / (m[0] - 1)));
  }
}

/// Mean and 1 / sqrt(variance + epsilon) from running statistics.
template <class T>
void batch_norm_from_running(block<T const, 1> running_mean, block<T const, 1> running_variance, double epsilon,
                             block<double, 1> mean, block<double, 1> inv_std) {
  for (index_t c = 0; c < mean.size(); ++c) {
    mean.data[c] = static_cast<double>(running_mean.data[c]);
    inv_std.data[c] = 1 / std::sqrt(static_cast<double>(running_variance.data[c]) + epsilon);
  }
}

template <class T>
T remainder_of(double value) {
  return static_cast<T>(value - static_cast<double>(static_cast<T>(value)));
}

/// An optional per-channel factor: 1 where the block is empty.
template <class T>
double factor_at(block<T const, 1> gamma, index_t c) {
  return gamma.data == nullptr ? 1.0 : static_cast<double>(gamma.data[c]);
}

template <class T>
void batch_norm_normalize(operand<T, 2> x, block<double const, 1> mean, block<double const, 1> inv_std,
                          operand<T, 1> gamma, operand<T, 1> beta, block<T, 2> y, workspace& scratch) {
  const index_t columns = x.extents[1];
  const wide_rows wide(x.extents[0], columns);
  const index_t w = wide.width;
  T* tables = scratch.get<T>(0, 3 * w);
  const auto slope = [&](index_t c) { return inv_std.data[c] * factor_at<T>(gamma, c); };
  repeat_columns(columns, wide, tables, [&](index_t c) { return static_cast<T>(mean.data[c]); });
  repeat_columns(columns, wide, tables + w, [&](index_t c) { return static_cast<T>(slope(c)); });
  // What T(mean) leaves of the mean is taken off here, where it is small.
  repeat_columns(columns, wide, tables + 2 * w, [&](index_t c) {
    const double start = beta.data == nullptr ? 0.0 : static_cast<double>(beta.data[c]);
    return static_cast<T>(start - static_cast<double>(remainder_of<T>(mean.data[c])) * slope(c));
  });
  const writer<T> write(y.size(), x.data == y.data);
  for_wide_rows(x.extents[0], columns, wide, scratch, [&](index_t at, index_t n) {
    write(y.data + at, n, [from = x.data + at, tables, w]<class V>(index_t j) {
      using namespace Eigen::internal;
      return pmadd(psub(load<V>(from + j), load<V>(tables + j)), load<V>(tables + w + j), load<V>(tables + 2 * w + j));
    });
  });
}

/// Per channel the sum of dy, then per channel the sum of dy * xhat: the gradients of beta and gamma.
template <class T>
void batch_norm_backward_sums(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                              block<double const, 1> inv_std, block<T, 1> sums, workspace& scratch) {
  const index_t columns = x.extents[1];
  const wide_rows wide(x.extents[0], columns);
  T* near = scratch.get<T>(0, wide.width);
  repeat_columns(columns, wide, near, [&](index_t c) { return static_cast<T>(mean.data[c]); });
  double* total = scratch.get<double>(2, 2 * columns);
  sum_columns<T, 2>(
      x.data, x.extents[0], columns, scratch,
      [value = x.data, gradient = dy.data, near]<class V>(index_t at, index_t j, V* sum) {
        using namespace Eigen::internal;
        const V g = load<V>(gradient + at);
        sum[0] = padd(sum[0], g);
        sum[1] = pmadd(g, psub(load<V>(value + at), load<V>(near + j)), sum[1]);
      },
      total);
  for (index_t c = 0; c < columns; ++c) {
    const double by_difference = total[columns + c] - total[c] * static_cast<double>(remainder_of<T>(mean.data[c]));
    sums.data[c] = static_cast<T>(total[c]);
    sums.data[columns + c] = static_cast<T>(by_difference * inv_std.data[c]);
  }
}

/// dx = gamma * inv_std * (dy - sum(dy) / count - xhat * sum(dy * xhat) / count).
template <class T>
void batch_norm_backward_input(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                               block<double const, 1> inv_std, operand<T, 1> gamma, operand<T, 1> sums, double count,
                               block<T, 2> dx, workspace& scratch) {
  const index_t columns = x.extents[1];
  const wide_rows wide(x.extents[0], columns);
  const index_t w = wide.width;
  T* tables = scratch.get<T>(0, 5 * w);
  // dx = slope * dy + ((x - T(mean)) * inv_std) * curve + rest, with everything that is the same for a channel in
  // `rest`. T may hold inv_std where it does not hold its square.
  const auto slope = [&](index_t c) { return inv_std.data[c] * factor_at<T>(gamma, c); };
  const auto curve = [&](index_t c) { return -slope(c) * static_cast<double>(sums.data[columns + c]) / count; };
  repeat_columns(columns, wide, tables, [&](index_t c) { return static_cast<T>(mean.data[c]); });
  repeat_columns(columns, wide, tables + w, [&](index_t c) { return static_cast<T>(slope(c)); });
  repeat_columns(columns, wide, tables + 2 * w, [&](index_t c) { return static_cast<T>(curve(c)); });
  repeat_columns(columns, wide, tables + 3 * w, [&](index_t c) {
    return static_cast<T>(-slope(c) * static_cast<double>(sums.data[c]) / count -
                          static_cast<double>(remainder_of<T>(mean.data[c])) * inv_std.data[c] * curve(c));
  });
  repeat_columns(columns, wide, tables + 4 * w, [&](index_t c) { return static_cast<T>(inv_std.data[c]); });
  const writer<T> write(dx.size(), dx.data == dy.data || dx.data == x.data);
  for_wide_rows(x.extents[0], columns, wide, scratch, [&](index_t at, index_t n) {
    write(dx.data + at, n, [value = x.data + at, gradient = dy.data + at, tables, w]<class V>(index_t j) {
      using namespace Eigen::internal;
      const V scaled = pmul(psub(load<V>(value + j), load<V>(tables + j)), load<V>(tables + 4 * w + j));
      const V rest = pmadd(scaled, load<V>(tables + 2 * w + j), load<V>(tables + 3 * w + j));
      return pmadd(load<V>(gradient + j), load<V>(tables + w + j), rest);
    });
  });
}

/// The gradient when the statistics are constants: dx = dy * gamma * inv_std.
template <class T>
void batch_norm_backward_input_evaluation(operand<T, 2> dy, block<double const, 1> inv_std, operand<T, 1> gamma,
                                          block<T, 2> dx, workspace& scratch) {
  const index_t columns = dy.extents[1];
  const wide_rows wide(dy.extents[0], columns);
  T* slope = scratch.get<T>(0, wide.width);
  repeat_columns(columns, wide, slope,
                 [&](index_t c) { return static_cast<T>(inv_std.data[c] * factor_at<T>(gamma, c)); });
  const writer<T> write(dx.size(), dx.data == dy.data);
  for_wide_rows(dy.extents[0], columns, wide, scratch, [&](index_t at, index_t n) {
    write(dx.data + at, n, [from = dy.data + at, slope]<class V>(index_t j) {
      return Eigen::internal::pmul(load<V>(from + j), load<V>(slope + j));
    });
  });
}

}  // namespace tessera::detail::eigen_kernels
