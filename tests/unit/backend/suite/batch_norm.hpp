#pragma once

#include "../reference.hpp"

namespace tessera::test::batch_norm_suite {
namespace {

constexpr double epsilon = 1e-5;
constexpr block<float const, 1> none{};

/// Statistics by two passes in double.
struct statistics {
  tensor<double, 2> moments;
  tensor<double, 1> mean, inv_std;

  template <class T>
  explicit statistics(tensor<T, 2> const& x)
      : moments(shape<2>{x.extent(1), 3}), mean(shape<1>{x.extent(1)}), inv_std(shape<1>{x.extent(1)}) {
    const auto n = static_cast<double>(x.extent(0));
    for (index_t c = 0; c < x.extent(1); ++c) {
      double sum = 0;
      for (index_t r = 0; r < x.extent(0); ++r) sum += static_cast<double>(x(r, c));
      const double m = x.extent(0) == 0 ? 0 : sum / n;
      double squares = 0;
      for (index_t r = 0; r < x.extent(0); ++r) squares += std::pow(static_cast<double>(x(r, c)) - m, 2);
      moments(c, 0) = n;
      moments(c, 1) = m;
      moments(c, 2) = squares;
      mean(c) = m;
      inv_std(c) = 1 / std::sqrt(squares / n + epsilon);
    }
  }
};

template <class T>
void check(index_t rows, index_t channels, bool affine) {
  CAPTURE(rows);
  CAPTURE(channels);
  CAPTURE(affine);
  suite_kernels k;
  const auto x = random_values<T>(shape<2>{rows, channels}, 1);
  const auto dy = random_values<T>(x.extents(), 2);
  const auto gamma = random_values<T>(shape<1>{affine ? channels : 0}, 3);
  const auto beta = random_values<T>(shape<1>{affine ? channels : 0}, 4);
  const auto gamma_block = affine ? gamma.read() : block<T const, 1>{};
  const auto beta_block = affine ? beta.read() : block<T const, 1>{};
  const statistics s(x);

  auto moments = unwritten<double>(shape<2>{channels, 3});
  k.batch_norm_moments(x.read(), moments.view());
  CHECK(worst(moments, s.moments) < tolerance<T>);
  if (rows == 0) return;
  auto mean = unwritten<double>(shape<1>{channels});
  auto inv_std = unwritten<double>(shape<1>{channels});
  k.batch_norm_finish(moments.read(), epsilon, mean.view(), inv_std.view());
  CHECK(worst(inv_std, s.inv_std) < tolerance<T>);

  const auto factor = [&](index_t c) { return affine ? static_cast<double>(gamma(c)) : 1.0; };
  const auto n = static_cast<double>(rows);
  tensor<double, 2> y_wanted(x.extents()), dx_wanted(x.extents()), constant_wanted(x.extents());
  tensor<double, 1> sums_wanted(shape<1>{2 * channels}, 0.0);
  const auto xhat = [&](index_t r, index_t c) { return (static_cast<double>(x(r, c)) - s.mean(c)) * s.inv_std(c); };
  for (index_t r = 0; r < rows; ++r) {
    for (index_t c = 0; c < channels; ++c) {
      y_wanted(r, c) = xhat(r, c) * factor(c) + (affine ? static_cast<double>(beta(c)) : 0.0);
      sums_wanted(c) += static_cast<double>(dy(r, c));
      sums_wanted(channels + c) += static_cast<double>(dy(r, c)) * xhat(r, c);
    }
  }
  for (index_t r = 0; r < rows; ++r) {
    for (index_t c = 0; c < channels; ++c) {
      constant_wanted(r, c) = factor(c) * s.inv_std(c) * static_cast<double>(dy(r, c));
      dx_wanted(r, c) = constant_wanted(r, c) -
                        factor(c) * s.inv_std(c) * (sums_wanted(c) / n + xhat(r, c) * sums_wanted(channels + c) / n);
    }
  }
  auto y = unwritten<T>(x.extents());
  k.batch_norm_normalize(x.read(), mean.read(), inv_std.read(), gamma_block, beta_block, y.view());
  CHECK(worst(y, y_wanted) < tolerance<T>);
  auto sums = unwritten<T>(shape<1>{2 * channels});
  k.batch_norm_backward_sums(x.read(), dy.read(), mean.read(), inv_std.read(), sums.view());
  CHECK(worst(sums, sums_wanted) < tolerance<T>);
  auto dx = unwritten<T>(x.extents());
  k.batch_norm_backward_input(x.read(), dy.read(), mean.read(), inv_std.read(), gamma_block, sums.read(), n, dx.view());
  CHECK(worst(dx, dx_wanted) < 4 * tolerance<T>);
  auto in_place = dy.clone();
  k.batch_norm_backward_input(x.read(), in_place.read(), mean.read(), inv_std.read(), gamma_block, sums.read(), n,
                              in_place.view());
  CHECK(worst(in_place, dx_wanted) < 4 * tolerance<T>);
  k.batch_norm_backward_input_evaluation(dy.read(), inv_std.read(), gamma_block, dx.view());
  CHECK(worst(dx, constant_wanted) < tolerance<T>);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "batch norm and its gradients equal their formulas", T, TESSERA_ELEMENTS) {
  for (const bool affine : {false, true}) {
    check<T>(37, 3, affine);
    check<T>(1000, 16, affine);
    check<T>(9, 200, affine);
    check<T>(2, 1, affine);
    check<T>(333, 64, affine);
    check<T>(0, 5, affine);
    check<T>(5, 0, affine);
  }
}

TEST_CASE(TESSERA_BACKEND "a mean a million deviations away is no harm in float" *
          doctest::skip(TESSERA_FLOAT_STATISTICS)) {
  // x = 1e4 + k / 1024 with k in 0..15: exact in float, deviation about 4.5e-3.
  const index_t rows = 20'000;
  tensor<float, 2> x(shape<2>{rows, 2});
  for (index_t r = 0; r < rows; ++r) {
    x(r, 0) = 10'000.0f + static_cast<float>((r * 7) % 16) / 1024.0f;
    // A first value far from all others must not spoil the rest.
    x(r, 1) = r == 0 ? 1e6f : static_cast<float>((r * 7) % 16) / 1024.0f;
  }
  const statistics s(x);
  suite_kernels k;
  auto moments = unwritten<double>(shape<2>{2, 3});
  auto mean = unwritten<double>(shape<1>{2});
  auto inv_std = unwritten<double>(shape<1>{2});
  k.batch_norm_moments(x.read(), moments.view());
  k.batch_norm_finish(moments.read(), epsilon, mean.view(), inv_std.view());
  CHECK(moments(0, 2) == doctest::Approx(s.moments(0, 2)).epsilon(1e-6));
  CHECK(moments(1, 2) == doctest::Approx(s.moments(1, 2)).epsilon(1e-5));
  auto y = unwritten<float>(x.extents());
  k.batch_norm_normalize(x.read(), mean.read(), inv_std.read(), none, none, y.view());
  tensor<double, 2> wanted(x.extents());
  for (index_t r = 0; r < rows; ++r)
    for (index_t c = 0; c < 2; ++c) wanted(r, c) = (static_cast<double>(x(r, c)) - s.mean(c)) * s.inv_std(c);
  CHECK(worst(y, wanted) < 1e-5);
}

TEST_CASE(TESSERA_BACKEND
          "values whose squares are outside the range of float are normalised, and so are their gradients" *
          doctest::skip(TESSERA_FLOAT_STATISTICS)) {
  const index_t rows = 300;
  const index_t channels = 5;
  const auto x = random_values<float, 2>({rows, channels}, 1);
  const auto dy = random_values<float, 2>({rows, channels}, 2);
  suite_kernels k;
  // y, and dx times the factor: the same whatever the factor is.
  const auto with = [&](float factor) {
    tensor<float, 2> scaled(x.extents());
    for (index_t i = 0; i < x.size(); ++i) scaled.data()[i] = factor * x.data()[i];
    auto moments = unwritten<double>(shape<2>{channels, 3});
    auto mean = unwritten<double>(shape<1>{channels});
    auto inv_std = unwritten<double>(shape<1>{channels});
    auto sums = unwritten<float>(shape<1>{2 * channels});
    auto y = unwritten<float>(x.extents());
    auto dx = unwritten<float>(x.extents());
    k.batch_norm_moments(scaled.read(), moments.view());
    k.batch_norm_finish(moments.read(), 0, mean.view(), inv_std.view());
    k.batch_norm_normalize(scaled.read(), mean.read(), inv_std.read(), none, none, y.view());
    k.batch_norm_backward_sums(scaled.read(), dy.read(), mean.read(), inv_std.read(), sums.view());
    k.batch_norm_backward_input(scaled.read(), dy.read(), mean.read(), inv_std.read(), none, sums.read(),
                                static_cast<double>(rows), dx.view());
    for (index_t i = 0; i < dx.size(); ++i) dx.data()[i] *= factor;
    return std::pair{std::move(y), std::move(dx)};
  };
  const auto wanted = with(1);
  for (const float factor : {0x1p-100f, 0x1p64f, 0x1p100f}) {
    CAPTURE(factor);
    const auto found = with(factor);
    CHECK(worst(found.first, as_double(wanted.first)) < 1e-5);
    CHECK(worst(found.second, as_double(wanted.second)) < 1e-5);
  }
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "running statistics take the unbiased variance", T, TESSERA_ELEMENTS) {
  const auto x = random_values<T>(shape<2>{50, 3}, 1);
  const statistics s(x);
  auto mean = random_values<T>(shape<1>{3}, 2);
  auto variance = random_values<T>(shape<1>{3}, 3);
  tensor<double, 1> mean_wanted(shape<1>{3}), variance_wanted(shape<1>{3}), inv_std_wanted(shape<1>{3});
  for (index_t c = 0; c < 3; ++c) {
    variance(c) += T{2};
    mean_wanted(c) = 0.75 * static_cast<double>(mean(c)) + 0.25 * s.mean(c);
    variance_wanted(c) = 0.75 * static_cast<double>(variance(c)) + 0.25 * s.moments(c, 2) / 49;
    inv_std_wanted(c) = 1 / std::sqrt(variance_wanted(c) + epsilon);
  }
  suite_kernels k;
  k.batch_norm_update_running(s.moments.read(), 0.25, mean.view(), variance.view());
  CHECK(worst(mean, mean_wanted) < tolerance<T>);
  CHECK(worst(variance, variance_wanted) < tolerance<T>);
  auto as_used = unwritten<double>(shape<1>{3});
  auto inv_std = unwritten<double>(shape<1>{3});
  k.batch_norm_from_running(std::as_const(mean).read(), std::as_const(variance).read(), epsilon, as_used.view(),
                            inv_std.view());
  CHECK(worst(as_used, as_double(mean)) == 0);
  CHECK(worst(inv_std, inv_std_wanted) < tolerance<T>);
}

}  // namespace tessera::test::batch_norm_suite
