#pragma once

#include "../reference.hpp"

#include <limits>

namespace tessera::test::row_norm_suite {
namespace {

constexpr double epsilon = 1e-5;

/// Layer norm (or root-mean-square norm, `centred` off) of rows and its gradients by the definition.
struct wanted {
  tensor<double, 2> y, dx;
  tensor<double, 1> mean, inv_std, dgamma, dbeta;

  template <class T>
  wanted(tensor<T, 2> const& x, tensor<T, 2> const& dy, tensor<T, 1> const& gamma, tensor<T, 1> const& beta,
         bool centred)
      : y(x.extents()),
        dx(x.extents()),
        mean(shape<1>{x.extent(0)}, 0.0),
        inv_std(shape<1>{x.extent(0)}),
        dgamma(shape<1>{x.extent(1)}, 0.0),
        dbeta(shape<1>{x.extent(1)}, 0.0) {
    const auto n = static_cast<double>(x.extent(1));
    const auto factor = [&](index_t e) { return gamma.size() > 0 ? static_cast<double>(gamma(e)) : 1.0; };
    for (index_t r = 0; r < x.extent(0); ++r) {
      const auto at = [&](index_t e) { return static_cast<double>(x(r, e)); };
      if (centred)
        for (index_t e = 0; e < x.extent(1); ++e) mean(r) += at(e) / n;
      double squares = 0;
      for (index_t e = 0; e < x.extent(1); ++e) squares += std::pow(at(e) - mean(r), 2);
      inv_std(r) = 1 / std::sqrt(squares / n + epsilon);
      double by_value = 0;
      double plain = 0;
      const auto xhat = [&](index_t e) { return (at(e) - mean(r)) * inv_std(r); };
      for (index_t e = 0; e < x.extent(1); ++e) {
        const auto g = static_cast<double>(dy(r, e));
        y(r, e) = xhat(e) * factor(e) + (beta.size() > 0 ? static_cast<double>(beta(e)) : 0.0);
        by_value += factor(e) * g * xhat(e);
        plain += centred ? factor(e) * g : 0;
        dgamma(e) += g * xhat(e);
        dbeta(e) += g;
      }
      for (index_t e = 0; e < x.extent(1); ++e)
        dx(r, e) = inv_std(r) * (factor(e) * static_cast<double>(dy(r, e)) - xhat(e) * by_value / n - plain / n);
    }
  }
};

/// Columns [begin, end), as a rank holds them that has a part of each row.
template <class T>
tensor<T, 2> columns(tensor<T, 2> const& x, index_t begin, index_t end) {
  tensor<T, 2> out(shape<2>{x.extent(0), end - begin});
  for (index_t r = 0; r < x.extent(0); ++r)
    for (index_t e = begin; e < end; ++e) out(r, e - begin) = x(r, e);
  return out;
}
template <class T>
tensor<T, 1> columns(tensor<T, 1> const& x, index_t begin, index_t end) {
  tensor<T, 1> out(shape<1>{x.size() > 0 ? end - begin : 0});
  std::copy_n(x.data() + begin, out.size(), out.data());
  return out;
}
template <class T>
block<T const, 1> or_empty(tensor<T, 1> const& t) {
  return t.size() > 0 ? t.read() : block<T const, 1>{};
}

template <class T>
void check_whole(shape<2> extents, bool affine, bool in_place) {
  CAPTURE(to_string(extents));
  CAPTURE(affine);
  CAPTURE(in_place);
  suite_kernels k;
  const auto x = random_values<T>(extents, 1);
  const auto dy = random_values<T>(extents, 2);
  const auto gamma = random_values<T>(shape<1>{affine ? extents[1] : 0}, 3);
  const auto beta = random_values<T>(shape<1>{affine ? extents[1] : 0}, 4);
  const tensor<T, 1> none(shape<1>{0});
  for (const bool centred : {true, false}) {
    CAPTURE(centred);
    const wanted w(x, dy, gamma, centred ? beta : none, centred);
    auto mean = unwritten<double>(shape<1>{extents[0]});
    auto inv_std = unwritten<double>(shape<1>{extents[0]});
    auto y = in_place ? x.clone() : unwritten<T>(extents);
    const auto from = in_place ? y.read() : x.read();
    if (centred)
      k.layer_norm_forward(from, epsilon, or_empty(gamma), or_empty(beta), mean.view(), inv_std.view(), y.view());
    else
      k.rms_norm_forward(from, epsilon, or_empty(gamma), inv_std.view(), y.view());
    CHECK(worst(y, w.y) < 4 * tolerance<T>);
    CHECK(worst(inv_std, w.inv_std) < 4 * tolerance<T>);
    if (centred) CHECK(worst(mean, w.mean) < tolerance<T>);
    const auto mean_block = centred ? mean.read() : block<double const, 1>{};
    auto dx = in_place ? dy.clone() : unwritten<T>(extents);
    const auto upstream = in_place ? dx.read() : dy.read();
    auto dgamma = unwritten<T>(shape<1>{extents[1]});
    auto dbeta = unwritten<T>(shape<1>{extents[1]});
    k.row_normalize_backward(x.read(), upstream, mean_block, inv_std.read(), or_empty(gamma), dx.view(),
                             affine ? dgamma.view() : block<T, 1>{}, affine ? dbeta.view() : block<T, 1>{});
    CHECK(worst(dx, w.dx) < 8 * tolerance<T>);
    if (!affine) continue;
    CHECK(worst(dgamma, w.dgamma) < 8 * tolerance<T>);
    CHECK(worst(dbeta, w.dbeta) < 8 * tolerance<T>);
  }
}

/// The rows in two parts, as two ranks have them, put together by hand.
template <class T>
void check_parts(shape<2> extents, index_t cut) {
  CAPTURE(to_string(extents));
  CAPTURE(cut);
  suite_kernels k;
  const index_t rows = extents[0];
  const auto x = random_values<T>(extents, 1);
  const auto dy = random_values<T>(extents, 2);
  const auto gamma = random_values<T>(shape<1>{extents[1]}, 3);
  const auto beta = random_values<T>(shape<1>{extents[1]}, 4);
  for (const bool centred : {true, false}) {
    CAPTURE(centred);
    const wanted w(x, dy, gamma, centred ? beta : tensor<T, 1>(shape<1>{0}), centred);
    const index_t bounds[] = {0, cut, extents[1]};
    tensor<double, 2> moments(shape<2>{rows, 3}, 0.0);
    tensor<T, 1> squares(shape<1>{rows}, T{0});
    tensor<double, 1> mean(shape<1>{rows}), inv_std(shape<1>{rows});
    for (int p = 0; p < 2; ++p) {
      const auto part = columns(x, bounds[p], bounds[p + 1]);
      auto of_part = unwritten<double>(shape<2>{rows, 3});
      auto squares_of_part = unwritten<T>(shape<1>{rows});
      k.row_moments(part.read(), of_part.view());
      k.row_squares(part.read(), squares_of_part.view());
      for (index_t r = 0; r < rows; ++r) {
        CHECK(of_part(r, 0) == static_cast<double>(part.extent(1)));
        const double total = moments(r, 0) + of_part(r, 0);
        const double apart = of_part(r, 1) - moments(r, 1);
        if (total > 0) {
          moments(r, 2) += of_part(r, 2) + apart * apart * moments(r, 0) * of_part(r, 0) / total;
          moments(r, 1) += apart * of_part(r, 0) / total;
        }
        moments(r, 0) = total;
        squares(r) += squares_of_part(r);
      }
    }
    if (centred)
      k.batch_norm_finish(moments.read(), epsilon, mean.view(), inv_std.view());
    else
      k.rms_norm_finish(squares.read(), static_cast<double>(extents[1]), epsilon, inv_std.view());
    const auto mean_block = centred ? mean.read() : block<double const, 1>{};
    tensor<T, 1> sums(shape<1>{2 * rows}, T{0});
    for (int p = 0; p < 2; ++p) {
      const auto part = columns(x, bounds[p], bounds[p + 1]);
      const auto factor = columns(gamma, bounds[p], bounds[p + 1]);
      const auto shift = columns(beta, bounds[p], bounds[p + 1]);
      auto y = unwritten<T>(part.extents());
      k.row_normalize(part.read(), mean_block, inv_std.read(), factor.read(),
                      centred ? shift.read() : block<T const, 1>{}, y.view());
      CHECK(worst(y, columns(w.y, bounds[p], bounds[p + 1])) < 4 * tolerance<T>);
      auto of_part = unwritten<T>(shape<1>{2 * rows});
      auto dgamma = unwritten<T>(factor.extents());
      auto dbeta = unwritten<T>(factor.extents());
      k.row_normalize_backward_sums(part.read(), columns(dy, bounds[p], bounds[p + 1]).read(), mean_block,
                                    inv_std.read(), factor.read(), of_part.view(), dgamma.view(), dbeta.view());
      CHECK(worst(dgamma, columns(w.dgamma, bounds[p], bounds[p + 1])) < 8 * tolerance<T>);
      CHECK(worst(dbeta, columns(w.dbeta, bounds[p], bounds[p + 1])) < 8 * tolerance<T>);
      for (index_t i = 0; i < (centred ? 2 : 1) * rows; ++i) sums(i) += of_part(i);
    }
    for (int p = 0; p < 2; ++p) {
      const auto part = columns(x, bounds[p], bounds[p + 1]);
      auto dx = unwritten<T>(part.extents());
      k.row_normalize_backward_input(part.read(), columns(dy, bounds[p], bounds[p + 1]).read(), mean_block,
                                     inv_std.read(), columns(gamma, bounds[p], bounds[p + 1]).read(), sums.read(),
                                     static_cast<double>(extents[1]), dx.view());
      CHECK(worst(dx, columns(w.dx, bounds[p], bounds[p + 1])) < 8 * tolerance<T>);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "layer norm and root-mean-square norm of rows equal their definitions", T,
                   TESSERA_ELEMENTS) {
  for (const shape<2> extents : {shape<2>{4, 7}, shape<2>{1, 1}, shape<2>{70, 33}, shape<2>{5, 512}, shape<2>{3, 4500},
                                 shape<2>{200, 3}, shape<2>{0, 5}})
    for (const bool affine : {true, false})
      for (const bool in_place : {true, false}) check_whole<T>(extents, affine, in_place);
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "rows in two parts, one of them empty or not, are those of the whole", T,
                   TESSERA_ELEMENTS) {
  for (const index_t cut : {0, 1, 11, 20}) check_parts<T>({6, 20}, cut);
  check_parts<T>({0, 20}, 7);
}

TEST_CASE(TESSERA_BACKEND "a mean of 1e4 with a deviation of 1e-2, and a value far out, keep their digits" *
          doctest::skip(TESSERA_FLOAT_STATISTICS)) {
  suite_kernels k;
  const shape<2> extents{6, 512};
  auto x = random_values<float>(extents, 1);
  for (float& v : x.view()) v = 1e4f + 1e-2f * v;
  for (const index_t e : {0, 256, 511}) {
    x(1, e) = 5e5f;  // all three values that a first guess of the mean may look at
    x(2, e) = -5e5f;
  }
  x(3, 100) = 5e5f;
  const auto dy = random_values<float>(extents, 2);
  const tensor<float, 1> none(shape<1>{0});
  const wanted w(x, dy, none, none, true);
  tensor<double, 1> mean(shape<1>{6}), inv_std(shape<1>{6});
  tensor<float, 2> y(extents);
  k.layer_norm_forward(x.read(), epsilon, none.read(), none.read(), mean.view(), inv_std.view(), y.view());
  for (index_t r = 0; r < 6; ++r) {
    CHECK(std::abs(mean(r) - w.mean(r)) * w.inv_std(r) < 1e-5);
    CHECK(inv_std(r) == doctest::Approx(w.inv_std(r)).epsilon(1e-5));
  }
  CHECK(worst(y, w.y) < 2e-5);
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "NaN and infinity spoil their row and no other; a row of equal values is the shift",
                   T, TESSERA_ELEMENTS) {
  suite_kernels k;
  auto x = random_values<T>(shape<2>{4, 40}, 1);
  x(0, 3) = std::numeric_limits<T>::quiet_NaN();
  x(1, 39) = std::numeric_limits<T>::infinity();
  for (index_t e = 0; e < 40; ++e) x(2, e) = T{7};
  const tensor<T, 1> gamma(shape<1>{40}, T{2});
  const tensor<T, 1> beta(shape<1>{40}, T{3});
  tensor<double, 1> mean(shape<1>{4}), inv_std(shape<1>{4});
  tensor<T, 2> y(x.extents());
  k.layer_norm_forward(x.read(), epsilon, gamma.read(), beta.read(), mean.view(), inv_std.view(), y.view());
  for (index_t e = 0; e < 40; ++e) {
    CHECK(std::isnan(y(0, e)));
    CHECK(std::isnan(y(1, e)));
    CHECK(y(2, e) == T{3});
    CHECK(std::isfinite(y(3, e)));
  }
}

}  // namespace tessera::test::row_norm_suite
