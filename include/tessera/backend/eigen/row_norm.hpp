#pragma once

#include <tessera/backend/eigen/moments.hpp>
#include <tessera/backend/eigen/writer.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace tessera::detail::eigen_kernels {

// Normalisation of the rows of a matrix [rows, extent]: layer norm by mean and deviation, root-mean-square norm by the
// latter alone, which is told by an empty block of means. Statistics are double, the mean is taken as two numbers of
// type T, as in batch norm. Empty gamma means 1, empty beta 0. Everything happens row by row, so that a row is read
// from memory once and then comes from the first cache.

/// `Terms` sums over `count` neighbours: in T for a while, then in double. `add(i, sums)` adds the elements from i on,
/// a packet or one number, to their sums.
template <class T, std::size_t Terms, class Add>
std::array<double, Terms> sum_row(index_t count, Add add) {
  using packet = typename Eigen::internal::packet_traits<T>::type;
  constexpr index_t width = Eigen::internal::packet_traits<T>::size;
  constexpr index_t together = 4;  // sums that do not wait for each other
  constexpr index_t longest = 64 * together;
  std::array<double, Terms> total{};
  index_t i = 0;
  while (count - i >= width) {
    const index_t packets = std::min((count - i) / width, longest);
    packet sum[together][Terms];
    for (auto& one : sum)
      for (packet& s : one) s = Eigen::internal::pset1<packet>(T{0});
    index_t p = 0;
    for (; p + together <= packets; p += together) [&]<std::size_t... K>(std::index_sequence<K...>) {
        (add(i + (p + static_cast<index_t>(K)) * width, sum[K]), ...);
      }
    (std::make_index_sequence<together>{});
    for (; p < packets; ++p) add(i + p * width, sum[0]);
    for (std::size_t t = 0; t < Terms; ++t)
      total[t] += static_cast<double>(Eigen::internal::predux(Eigen::internal::padd(
          Eigen::internal::padd(sum[0][t], sum[1][t]), Eigen::internal::padd(sum[2][t], sum[3][t]))));
    i += packets * width;
  }
  T rest[Terms]{};
  for (; i < count; ++i) add(i, rest);
  for (std::size_t t = 0; t < Terms; ++t) total[t] += static_cast<double>(rest[t]);
  return total;
}

/// Mean and sum of squared deviations of a row, from the sums of the differences from one of three of its values. Where
/// that one lies far out, so that something large cancels, the sums are taken again from the mean.
template <class T>
mean_and_squares moments_of_row(T const* x, index_t extent) {
  if (extent == 0) return {};
  const auto n = static_cast<double>(extent);
  const T a = x[0];
  const T b = x[extent / 2];
  const T c = x[extent - 1];
  T near = std::max(std::min(a, b), std::min(std::max(a, b), c));
  for (bool first = true;; first = false) {
    const auto sums = sum_row<T, 2>(extent, [x, near]<class V>(index_t i, V* sum) {
      using namespace Eigen::internal;
      const V d = psub(load<V>(x + i), pset1<V>(near));
      sum[0] = padd(sum[0], d);
      sum[1] = pmadd(d, d, sum[1]);
    });
    const double moved = sums[0] / n;
    const double m2 = sums[1] - moved * sums[0];
    if (!holds_squares<T>(sums[1])) return wide_moments(x, extent);
    if (!first || !(4 * m2 < sums[1])) return {static_cast<double>(near) + moved, std::max(0.0, m2)};
    near = static_cast<T>(static_cast<double>(near) + moved);
  }
}

template <class T>
double squares_of_row(T const* x, index_t extent) {
  const double sum = sum_row<T, 1>(extent, [x]<class V>(index_t i, V* sum) {
    const V v = load<V>(x + i);
    sum[0] = Eigen::internal::pmadd(v, v, sum[0]);
  })[0];
  return holds_squares<T>(sum) ? sum : array(x, extent).template cast<double>().square().sum();
}

/// How a row is normalised: xhat = (x - near) * slope + start.
template <class T>
struct row_scale {
  T near;
  T slope;
  T start;

  row_scale(double mean, double inv_std)
      : near(static_cast<T>(mean)),
        slope(static_cast<T>(inv_std)),
        start(static_cast<T>((static_cast<double>(near) - mean) * inv_std)) {}

  template <class V>
  V apply(T const* x) const {
    using namespace Eigen::internal;
    return pmadd(psub(load<V>(x), pset1<V>(near)), pset1<V>(slope), pset1<V>(start));
  }
};

template <class T>
row_scale<T> scale_at(block<double const, 1> mean, block<double const, 1> inv_std, index_t row) {
  return {mean.data == nullptr ? 0.0 : mean.data[row], inv_std.data[row]};
}

template <class T>
void normalize_row(writer<T> const& write, T const* x, index_t extent, row_scale<T> scale, T const* gamma,
                   T const* beta, T* y) {
  using namespace Eigen::internal;
  if (gamma != nullptr && beta != nullptr)
    write(y, extent, [=]<class V>(index_t i) {
      return pmadd(scale.template apply<V>(x + i), load<V>(gamma + i), load<V>(beta + i));
    });
  else if (gamma != nullptr)
    write(y, extent, [=]<class V>(index_t i) { return pmul(scale.template apply<V>(x + i), load<V>(gamma + i)); });
  else
    write(y, extent, [=]<class V>(index_t i) { return scale.template apply<V>(x + i); });
}

/// Sums of gamma * dy * xhat and of gamma * dy over a row.
template <class T>
std::array<double, 2> gradient_sums_of_row(T const* x, T const* dy, index_t extent, row_scale<T> scale,
                                           T const* gamma) {
  using namespace Eigen::internal;
  const auto add = [=]<class V>(V const& g, index_t i, V* sum) {
    sum[0] = pmadd(g, scale.template apply<V>(x + i), sum[0]);
    sum[1] = padd(sum[1], g);
  };
  if (gamma == nullptr) return sum_row<T, 2>(extent, [=]<class V>(index_t i, V* sum) { add(load<V>(dy + i), i, sum); });
  return sum_row<T, 2>(extent,
                       [=]<class V>(index_t i, V* sum) { add(pmul(load<V>(dy + i), load<V>(gamma + i)), i, sum); });
}

/// dx = inv_std * (gamma * dy - xhat * sums[0] / count - sums[1] / count).
template <class T>
void gradient_row(writer<T> const& write, T const* x, T const* dy, index_t extent, row_scale<T> scale, double inv_std,
                  T const* gamma, std::array<double, 2> sums, double count, T* dx) {
  using namespace Eigen::internal;
  const T curve = static_cast<T>(-inv_std * sums[0] / count);
  const T start = static_cast<T>(-inv_std * sums[1] / count);
  const auto rest = [=]<class V>(V, index_t i) {
    return pmadd(scale.template apply<V>(x + i), pset1<V>(curve), pset1<V>(start));
  };
  if (gamma == nullptr)
    write(dx, extent, [=]<class V>(index_t i) { return pmadd(load<V>(dy + i), pset1<V>(scale.slope), rest(V{}, i)); });
  else
    write(dx, extent, [=]<class V>(index_t i) {
      return pmadd(pmul(load<V>(dy + i), load<V>(gamma + i)), pset1<V>(scale.slope), rest(V{}, i));
    });
}

/// Gradients of gamma (sum of dy * xhat over rows) and beta (sum of dy), row after row: in T for some rows, then in
/// double. Nothing for empty blocks.
template <class T>
class affine_gradients {
 public:
  affine_gradients(block<T, 1> gamma, block<T, 1> beta, workspace& scratch)
      : gamma_(gamma), beta_(beta), extent_(gamma.size()) {
    total_ = scratch.get<double>(0, 2 * extent_);
    partial_ = scratch.get<T>(1, 2 * extent_);
    std::fill_n(total_, 2 * extent_, 0.0);
    std::fill_n(partial_, 2 * extent_, T{0});
  }

  void add(T const* x, T const* dy, row_scale<T> scale) {
    if (gamma_.data == nullptr) return;
    add_with<typename Eigen::internal::packet_traits<T>::type>(x, dy, scale);
    if (++rows_ == 64) fold();
  }
  /// Takes in what another one was given.
  void add(affine_gradients& other) {
    if (gamma_.data == nullptr) return;
    other.fold();
    array(total_, 2 * extent_) += array(other.total_, 2 * extent_);
  }
  void finish() {
    if (gamma_.data == nullptr) return;
    fold();
    for (index_t i = 0; i < extent_; ++i) gamma_.data[i] = static_cast<T>(total_[i]);
    for (index_t i = 0; i < beta_.size(); ++i) beta_.data[i] = static_cast<T>(total_[extent_ + i]);
  }

 private:
  template <class Packet>
  void add_with(T const* x, T const* dy, row_scale<T> scale) {
    constexpr index_t width = Eigen::internal::packet_traits<T>::size;
    T* of_gamma = partial_;
    T* of_beta = partial_ + extent_;
    const auto one = [=]<class V>(V, index_t i) {
      using namespace Eigen::internal;
      const V g = load<V>(dy + i);
      pstoreu(of_gamma + i, pmadd(g, scale.template apply<V>(x + i), load<V>(of_gamma + i)));
      pstoreu(of_beta + i, padd(load<V>(of_beta + i), g));
    };
    index_t i = 0;
    for (; i + width <= extent_; i += width) one(Packet{}, i);
    for (; i < extent_; ++i) one(T{}, i);
  }
  void fold() {
    array(total_, 2 * extent_) += array(partial_, 2 * extent_).template cast<double>();
    std::fill_n(partial_, 2 * extent_, T{0});
    rows_ = 0;
  }

  block<T, 1> gamma_;
  block<T, 1> beta_;
  index_t extent_;
  double* total_ = nullptr;
  T* partial_ = nullptr;
  int rows_ = 0;
};

/// Calls `with(rows, gradients)` for some rows on each thread, whose gradients are added in row order.
template <class T, class With>
void with_affine_gradients(shape<2> const& x, block<T, 1> dgamma, block<T, 1> dbeta, workspace& scratch, With with) {
  const int parts = scratch.parts(x[0], 4 * x[1]);
  std::vector<std::optional<affine_gradients<T>>> of_parts(static_cast<std::size_t>(parts));
  scratch.run(parts, [&](int part, workspace& own) {
    with(cut({0, x[0]}, parts, part), of_parts[static_cast<std::size_t>(part)].emplace(dgamma, dbeta, own));
  });
  for (std::size_t part = 1; part < of_parts.size(); ++part) of_parts[0]->add(*of_parts[part]);
  of_parts[0]->finish();
}

/// moments [rows, 3]: count, mean, sum of squared deviations of each row.
template <class T>
void row_moments(block<T const, 2> x, block<double, 2> moments) {
  const auto [rows, extent] = x.extents.extents;
  for (index_t r = 0; r < rows; ++r) {
    const auto of_row = moments_of_row(x.data + r * extent, extent);
    moments.data[3 * r] = static_cast<double>(extent);
    moments.data[3 * r + 1] = of_row.mean;
    moments.data[3 * r + 2] = of_row.m2;
  }
}

/// squares [rows]: the sum of squares of each row, in the type M of a message.
template <class T, class M>
void row_squares(block<T const, 2> x, block<M, 1> squares) {
  const auto [rows, extent] = x.extents.extents;
  for (index_t r = 0; r < rows; ++r) squares.data[r] = static_cast<M>(squares_of_row(x.data + r * extent, extent));
}

/// y = xhat * gamma + beta.
template <class T>
void row_normalize(operand<T, 2> x, block<double const, 1> mean, block<double const, 1> inv_std, operand<T, 1> gamma,
                   operand<T, 1> beta, block<T, 2> y) {
  const auto [rows, extent] = x.extents.extents;
  const writer<T> write(y.size(), x.data == y.data);
  for (index_t r = 0; r < rows; ++r)
    normalize_row(write, x.data + r * extent, extent, scale_at<T>(mean, inv_std, r), gamma.data, beta.data,
                  y.data + r * extent);
}

/// Calls `first(row)` for a few of the rows and then `second(row)` for the same: the processor sums one row while it
/// waits for the root of another, and all are still in the first cache when they are finished.
template <class First, class Second>
void for_rows_twice(interval rows, First first, Second second) {
  constexpr index_t together = 4;
  for (index_t begin = rows.begin; begin < rows.end(); begin += together) {
    const index_t end = std::min(rows.end(), begin + together);
    for (index_t r = begin; r < end; ++r) first(r);
    for (index_t r = begin; r < end; ++r) second(r);
  }
}

/// Statistics and result of whole rows at once.
template <class T>
void layer_norm_forward(operand<T, 2> x, double epsilon, operand<T, 1> gamma, operand<T, 1> beta, block<double, 1> mean,
                        block<double, 1> inv_std, block<T, 2> y) {
  const index_t extent = x.extents[1];
  const writer<T> write(y.size(), x.data == y.data);
  for_rows_twice(
      {0, x.extents[0]},
      [&](index_t r) {
        const auto of_row = moments_of_row(x.data + r * extent, extent);
        mean.data[r] = of_row.mean;
        inv_std.data[r] = 1 / std::sqrt(of_row.m2 / static_cast<double>(extent) + epsilon);
      },
      [&](index_t r) {
        normalize_row(write, x.data + r * extent, extent, scale_at<T>(mean, inv_std, r), gamma.data, beta.data,
                      y.data + r * extent);
      });
}

template <class T>
void rms_norm_forward(operand<T, 2> x, double epsilon, operand<T, 1> gamma, block<double, 1> inv_std, block<T, 2> y) {
  const index_t extent = x.extents[1];
  const writer<T> write(y.size(), x.data == y.data);
  for_rows_twice(
      {0, x.extents[0]},
      [&](index_t r) {
        const double squares = squares_of_row(x.data + r * extent, extent);
        inv_std.data[r] = 1 / std::sqrt(squares / static_cast<double>(extent) + epsilon);
      },
      [&](index_t r) {
        normalize_row<T>(write, x.data + r * extent, extent, scale_at<T>({}, inv_std, r), gamma.data, nullptr,
                         y.data + r * extent);
      });
}

/// 1 / sqrt(squares / count + epsilon); false where squares are outside the range of M.
template <class M>
bool rms_norm_finish(block<M const, 1> squares, double count, double epsilon, block<double, 1> inv_std) {
  bool kept = true;
  for (index_t r = 0; r < squares.size(); ++r) {
    const double square = static_cast<double>(squares.data[r]) / count + epsilon;
    kept = kept && holds_squares<M>(square);
    inv_std.data[r] = 1 / std::sqrt(square);
  }
  return kept;
}

/// sums [rows]: sum of gamma * dy * xhat over each row; with means [2 * rows], then the sum of gamma * dy. The
/// gradients of gamma and beta on the way.
template <class T>
void row_normalize_backward_sums(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                 block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 1> sums,
                                 block<T, 1> dgamma, block<T, 1> dbeta, workspace& scratch) {
  const index_t rows = x.extents[0];
  const index_t extent = x.extents[1];
  with_affine_gradients<T>(x.extents, dgamma, dbeta, scratch, [&](interval some, affine_gradients<T>& gradients) {
    for (index_t r = some.begin; r < some.end(); ++r) {
      const auto scale = scale_at<T>(mean, inv_std, r);
      const auto of_row = gradient_sums_of_row(x.data + r * extent, dy.data + r * extent, extent, scale, gamma.data);
      sums.data[r] = static_cast<T>(of_row[0]);
      if (mean.data != nullptr) sums.data[rows + r] = static_cast<T>(of_row[1]);
      gradients.add(x.data + r * extent, dy.data + r * extent, scale);
    }
  });
}

/// dx from `sums` over whole rows of `count` values.
template <class T>
void row_normalize_backward_input(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                  block<double const, 1> inv_std, operand<T, 1> gamma, operand<T, 1> sums, double count,
                                  block<T, 2> dx, workspace& scratch) {
  const index_t rows = x.extents[0];
  const index_t extent = x.extents[1];
  const writer<T> write(dx.size(), dx.data == x.data || dx.data == dy.data);
  scratch.split(rows, 2 * extent, [&](index_t begin, index_t end, workspace&) {
    for (index_t r = begin; r < end; ++r) {
      const std::array<double, 2> of_row{static_cast<double>(sums.data[r]),
                                         mean.data == nullptr ? 0.0 : static_cast<double>(sums.data[rows + r])};
      gradient_row(write, x.data + r * extent, dy.data + r * extent, extent, scale_at<T>(mean, inv_std, r),
                   inv_std.data[r], gamma.data, of_row, count, dx.data + r * extent);
    }
  });
}

/// Both at once for whole rows.
template <class T>
void row_normalize_backward(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                            block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 2> dx, block<T, 1> dgamma,
                            block<T, 1> dbeta, workspace& scratch) {
  const index_t rows = x.extents[0];
  const index_t extent = x.extents[1];
  const writer<T> write(dx.size(), dx.data == x.data || dx.data == dy.data);
  auto* sums = scratch.get<std::array<double, 2>>(2, rows);
  with_affine_gradients<T>(x.extents, dgamma, dbeta, scratch, [&](interval some, affine_gradients<T>& gradients) {
    for_rows_twice(
        some,
        [&](index_t r) {
          T const* row = x.data + r * extent;
          T const* upstream = dy.data + r * extent;
          const auto scale = scale_at<T>(mean, inv_std, r);
          sums[r] = gradient_sums_of_row(row, upstream, extent, scale, gamma.data);
          if (mean.data == nullptr) sums[r][1] = 0;
          gradients.add(row, upstream, scale);
        },
        [&](index_t r) {
          gradient_row(write, x.data + r * extent, dy.data + r * extent, extent, scale_at<T>(mean, inv_std, r),
                       inv_std.data[r], gamma.data, sums[r], static_cast<double>(extent), dx.data + r * extent);
        });
  });
}

}  // namespace tessera::detail::eigen_kernels
