#pragma once

#include "../reference.hpp"

namespace tessera::test::group_norm_suite {
namespace {

constexpr double epsilon = 1e-5;

/// Group norm and its gradients by the definition.
struct wanted {
  tensor<double, 4> y, dx;
  tensor<double, 1> mean, inv_std, dgamma, dbeta;

  template <class T>
  wanted(tensor<T, 4> const& x, tensor<T, 4> const& dy, index_t groups, tensor<T, 1> const& gamma,
         tensor<T, 1> const& beta)
      : y(x.extents()),
        dx(x.extents()),
        mean(shape<1>{x.extent(0) * groups}, 0.0),
        inv_std(mean.extents()),
        dgamma(shape<1>{x.extent(1)}, 0.0),
        dbeta(shape<1>{x.extent(1)}, 0.0) {
    const index_t each = x.extent(1) / groups;
    const auto count = static_cast<double>(each * x.extent(2) * x.extent(3));
    const auto factor = [&](index_t c) { return gamma.size() > 0 ? static_cast<double>(gamma(c)) : 1.0; };
    for (index_t i = 0; i < x.extent(0) * groups; ++i) {
      const index_t n = i / groups;
      const auto for_each = [&](auto with) {
        for (index_t c = i % groups * each; c < (i % groups + 1) * each; ++c)
          for (index_t h = 0; h < x.extent(2); ++h)
            for (index_t w = 0; w < x.extent(3); ++w)
              with(c, h, w, static_cast<double>(x(n, c, h, w)), static_cast<double>(dy(n, c, h, w)));
      };
      for_each([&](index_t, index_t, index_t, double v, double) { mean(i) += v / count; });
      double squares = 0;
      for_each([&](index_t, index_t, index_t, double v, double) { squares += std::pow(v - mean(i), 2); });
      inv_std(i) = 1 / std::sqrt(squares / count + epsilon);
      double by_value = 0;
      double plain = 0;
      for_each([&](index_t c, index_t h, index_t w, double v, double g) {
        const double xhat = (v - mean(i)) * inv_std(i);
        y(n, c, h, w) = xhat * factor(c) + (beta.size() > 0 ? static_cast<double>(beta(c)) : 0.0);
        by_value += factor(c) * g * xhat;
        plain += factor(c) * g;
        dgamma(c) += g * xhat;
        dbeta(c) += g;
      });
      for_each([&](index_t c, index_t h, index_t w, double v, double g) {
        const double xhat = (v - mean(i)) * inv_std(i);
        dx(n, c, h, w) = inv_std(i) * (factor(c) * g - xhat * by_value / count - plain / count);
      });
    }
  }
};

template <class T>
void check(shape<4> extents, index_t groups, bool affine, bool in_place) {
  CAPTURE(to_string(extents));
  CAPTURE(groups);
  CAPTURE(affine);
  CAPTURE(in_place);
  suite_kernels k;
  const auto x = random_values<T>(extents, 1);
  const auto dy = random_values<T>(extents, 2);
  const auto gamma = random_values<T>(shape<1>{affine ? extents[1] : 0}, 3);
  const auto beta = random_values<T>(gamma.extents(), 4);
  const auto gamma_block = affine ? gamma.read() : block<T const, 1>{};
  const auto beta_block = affine ? beta.read() : block<T const, 1>{};
  const wanted w(x, dy, groups, gamma, beta);
  const index_t number = extents[0] * groups;
  auto moments = unwritten<double>(shape<2>{number, 3});
  k.group_norm_moments(x.read(), groups, moments.view());
  const index_t count = extents[1] / groups * extents[2] * extents[3];
  for (index_t i = 0; i < number; ++i) CHECK(moments(i, 0) == static_cast<double>(count));
  auto mean = unwritten<double>(shape<1>{number});
  auto inv_std = unwritten<double>(shape<1>{number});
  k.batch_norm_finish(moments.read(), epsilon, mean.view(), inv_std.view());
  CHECK(worst(mean, w.mean) < tolerance<T>);
  CHECK(worst(inv_std, w.inv_std) < tolerance<T>);
  auto y = in_place ? x.clone() : unwritten<T>(extents);
  k.group_norm_normalize(in_place ? y.read() : x.read(), groups, mean.read(), inv_std.read(), gamma_block, beta_block,
                         y.view());
  CHECK(worst(y, w.y) < 4 * tolerance<T>);
  auto sums = unwritten<T>(shape<1>{2 * number});
  auto dgamma = unwritten<T>(shape<1>{extents[1]});
  auto dbeta = unwritten<T>(shape<1>{extents[1]});
  k.group_norm_backward_sums(x.read(), dy.read(), groups, mean.read(), inv_std.read(), gamma_block, sums.view(),
                             affine ? dgamma.view() : block<T, 1>{}, affine ? dbeta.view() : block<T, 1>{});
  if (affine) {
    CHECK(worst(dgamma, w.dgamma) < 4 * tolerance<T>);
    CHECK(worst(dbeta, w.dbeta) < 4 * tolerance<T>);
  }
  auto dx = in_place ? dy.clone() : unwritten<T>(extents);
  k.group_norm_backward_input(x.read(), in_place ? dx.read() : dy.read(), groups, mean.read(), inv_std.read(),
                              gamma_block, sums.read(), static_cast<double>(count), dx.view());
  CHECK(worst(dx, w.dx) < 4 * tolerance<T>);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "group norm equals its definition", T, TESSERA_ELEMENTS) {
  for (const bool affine : {true, false})
    for (const bool in_place : {true, false}) {
      check<T>({2, 6, 3, 5}, 2, affine, in_place);
      check<T>({1, 8, 9, 7}, 8, affine, in_place);
      check<T>({3, 5, 1, 2}, 1, affine, in_place);
      check<T>({2, 40, 13, 11}, 4, affine, in_place);
      check<T>({0, 6, 3, 5}, 2, affine, in_place);
    }
}

TEST_CASE(TESSERA_BACKEND "blocks without pixels or channels count nothing") {
  suite_kernels k;
  const tensor<float, 4> no_pixels(shape<4>{2, 4, 0, 3});
  auto moments = unwritten<double>(shape<2>{4, 3});
  k.group_norm_moments(no_pixels.read(), 2, moments.view());
  auto sums = unwritten<float>(shape<1>{8});
  auto dgamma = unwritten<float>(shape<1>{4});
  auto dbeta = unwritten<float>(shape<1>{4});
  const tensor<double, 1> statistics(shape<1>{4}, 1.0);
  k.group_norm_backward_sums(no_pixels.read(), no_pixels.read(), 2, statistics.read(), statistics.read(),
                             block<float const, 1>{}, sums.view(), dgamma.view(), dbeta.view());
  for (index_t i = 0; i < 4; ++i) {
    CHECK(moments(i, 0) == 0);
    CHECK(moments(i, 2) == 0);
    CHECK(sums(i) == 0);
    CHECK(sums(4 + i) == 0);
    CHECK(dgamma(i) == 0);
    CHECK(dbeta(i) == 0);
  }
  const tensor<float, 4> no_channels(shape<4>{2, 0, 3, 3});
  tensor<float, 4> y(no_channels.extents());
  k.group_norm_normalize(no_channels.read(), 0, block<double const, 1>{}, block<double const, 1>{},
                         block<float const, 1>{}, block<float const, 1>{}, y.view());
}

}  // namespace tessera::test::group_norm_suite
