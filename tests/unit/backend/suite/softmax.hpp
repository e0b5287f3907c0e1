#pragma once

#include "../reference.hpp"

#include <limits>
#include <vector>

namespace tessera::test::softmax_suite {
namespace {

/// Softmax, its logarithm, and the gradients of both for upstream gradient dy, by the definition.
struct wanted {
  tensor<double, 3> y, log_y, dx, log_dx;

  template <class T>
  wanted(tensor<T, 3> const& x, tensor<T, 3> const& dy)
      : y(x.extents()), log_y(x.extents()), dx(x.extents()), log_dx(x.extents()) {
    for (index_t o = 0; o < x.extent(0); ++o) {
      for (index_t i = 0; i < x.extent(2); ++i) {
        double most = -INFINITY;
        for (index_t e = 0; e < x.extent(1); ++e) most = std::max(most, static_cast<double>(x(o, e, i)));
        double sum = 0;
        for (index_t e = 0; e < x.extent(1); ++e) sum += std::exp(static_cast<double>(x(o, e, i)) - most);
        double dot = 0;
        double upstream = 0;
        for (index_t e = 0; e < x.extent(1); ++e) {
          log_y(o, e, i) = static_cast<double>(x(o, e, i)) - most - std::log(sum);
          y(o, e, i) = std::exp(log_y(o, e, i));
          dot += y(o, e, i) * static_cast<double>(dy(o, e, i));
          upstream += static_cast<double>(dy(o, e, i));
        }
        for (index_t e = 0; e < x.extent(1); ++e) {
          dx(o, e, i) = y(o, e, i) * (static_cast<double>(dy(o, e, i)) - dot);
          log_dx(o, e, i) = static_cast<double>(dy(o, e, i)) - y(o, e, i) * upstream;
        }
      }
    }
  }
};

/// The part [begin, end) of the middle dimension.
template <class T>
tensor<T, 3> part(tensor<T, 3> const& x, index_t begin, index_t end) {
  tensor<T, 3> p(shape<3>{x.extent(0), end - begin, x.extent(2)});
  for (index_t o = 0; o < x.extent(0); ++o)
    for (index_t e = begin; e < end; ++e)
      for (index_t i = 0; i < x.extent(2); ++i) p(o, e - begin, i) = x(o, e, i);
  return p;
}

template <class T>
void check(shape<3> extents, double factor) {
  CAPTURE(to_string(extents));
  auto x = random_values<T>(extents, 1);
  for (T& v : x.view()) v = static_cast<T>(static_cast<double>(v) * factor);
  const auto dy = random_values<T>(extents, 2);
  const wanted w(x, dy);
  auto y = unwritten<T>(extents);
  auto log_y = unwritten<T>(extents);
  auto dx = unwritten<T>(extents);
  auto log_dx = unwritten<T>(extents);
  suite_kernels k;
  k.softmax_forward(x.read(), y.view());
  k.log_softmax_forward(x.read(), log_y.view());
  k.softmax_backward(y.read(), dy.read(), dx.view());
  k.log_softmax_backward(log_y.read(), dy.read(), log_dx.view());
  CHECK(worst(y, w.y) < tolerance<T>);
  CHECK(worst(log_y, w.log_y) < tolerance<T>);
  CHECK(worst(dx, w.dx) < 4 * tolerance<T>);
  CHECK(worst(log_dx, w.log_dx) < 4 * tolerance<T>);

  // The same from two parts of the rows, reduced between the pieces.
  const index_t cut = extents[1] / 3;
  const std::vector<std::array<index_t, 2>> parts{{0, cut}, {cut, extents[1]}};
  const shape<2> rows{extents[0], extents[2]};
  tensor<T, 2> maximum(rows, -std::numeric_limits<T>::infinity());
  tensor<T, 2> sum(rows, T{0});
  tensor<T, 2> dot(rows, T{0});
  tensor<T, 2> upstream(rows, T{0});
  for (auto [begin, end] : parts) {
    auto m = unwritten<T>(rows);
    k.row_max(part(x, begin, end).read(), m.view());
    for (index_t i = 0; i < m.size(); ++i) maximum.data()[i] = std::max(maximum.data()[i], m.data()[i]);
  }
  for (auto [begin, end] : parts) {
    auto s = unwritten<T>(rows);
    k.row_sum_exp(part(x, begin, end).read(), maximum.read(), s.view());
    for (index_t i = 0; i < s.size(); ++i) sum.data()[i] += s.data()[i];
    k.row_dot(part(y, begin, end).read(), part(dy, begin, end).read(), s.view());
    for (index_t i = 0; i < s.size(); ++i) dot.data()[i] += s.data()[i];
    k.row_sum(part(dy, begin, end).read(), s.view());
    for (index_t i = 0; i < s.size(); ++i) upstream.data()[i] += s.data()[i];
  }
  for (auto [begin, end] : parts) {
    const auto px = part(x, begin, end);
    const auto py = part(y, begin, end);
    const auto pdy = part(dy, begin, end);
    auto out = unwritten<T>(px.extents());
    k.softmax_finish(px.read(), maximum.read(), sum.read(), out.view());
    CHECK(worst(out, part(w.y, begin, end)) < tolerance<T>);
    k.softmax_backward_finish(py.read(), pdy.read(), dot.read(), out.view());
    CHECK(worst(out, part(w.dx, begin, end)) < 4 * tolerance<T>);
    k.log_softmax_finish(px.read(), maximum.read(), sum.read(), out.view());
    CHECK(worst(out, part(w.log_y, begin, end)) < tolerance<T>);
    k.log_softmax_backward_finish(part(log_y, begin, end).read(), pdy.read(), upstream.read(), out.view());
    CHECK(worst(out, part(w.log_dx, begin, end)) < 4 * tolerance<T>);
  }
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "softmax and its logarithm, whole and in parts", T, TESSERA_ELEMENTS) {
  for (auto const& extents : {shape<3>{3, 10, 1},
                              {2, 7, 5},
                              {1, 1, 1},
                              {4, 131, 1},
                              {2, 3, 37},
                              {0, 4, 2},
                              {3, 4, 0},
                              {2, 0, 3},
                              {2, 0, 1}}) {
    check<T>(extents, 1);
    check<T>(extents, 10'000);
  }
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "softmax of minus infinity is nothing, and NaN spoils its row and no other", T,
                   TESSERA_ELEMENTS) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  suite_kernels k;
  for (const index_t inner : {1, 3, 16, 19})
    for (const index_t extent : {1, 2, 7, 8, 15, 16, 17, 33, 40})
      for (const index_t at : {index_t{0}, extent / 2, extent - 1}) {
        CAPTURE(inner);
        CAPTURE(extent);
        CAPTURE(at);
        auto x = random_values<T>(shape<3>{4, extent, inner}, 1);
        for (index_t i = 0; i < inner; ++i) {
          x(0, at, i) = -infinity;
          x(1, at, i) = std::numeric_limits<T>::quiet_NaN();
          for (index_t e = 0; e < extent; ++e) x(3, e, i) = -infinity;
        }
        auto y = unwritten<T>(x.extents());
        auto log_y = unwritten<T>(x.extents());
        k.softmax_forward(x.read(), y.view());
        k.log_softmax_forward(x.read(), log_y.view());
        for (index_t i = 0; i < inner; ++i) {
          double sum[2] = {};
          for (index_t e = 0; e < extent; ++e) {
            sum[0] += static_cast<double>(y(0, e, i));
            sum[1] += static_cast<double>(y(2, e, i));
            for (const index_t spoilt : {1, 3}) {
              CHECK(std::isnan(y(spoilt, e, i)));
              CHECK(std::isnan(log_y(spoilt, e, i)));
            }
          }
          CHECK(sum[1] == doctest::Approx(1));
          if (extent == 1) continue;
          CHECK(y(0, at, i) == T{0});
          CHECK(log_y(0, at, i) == -infinity);
          CHECK(sum[0] == doctest::Approx(1));
        }
      }
  // The same where the maxima and sums of rows come from elsewhere.
  auto x = random_values<T>(shape<3>{1, 37, 1}, 1);
  for (const index_t e : {0, 20, 36}) x(0, e, 0) = -infinity;
  auto y = unwritten<T>(x.extents());
  k.softmax_finish(x.read(), tensor<T, 2>(shape<2>{1, 1}, T{1}).read(), tensor<T, 2>(shape<2>{1, 1}, T{9}).read(),
                   y.view());
  for (const index_t e : {0, 20, 36}) CHECK(y(0, e, 0) == T{0});
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "the maximum of a row keeps NaN and is minus infinity over nothing", T,
                   TESSERA_ELEMENTS) {
  suite_kernels k;
  for (index_t inner : {1, 5}) {
    auto x = random_values<T>(shape<3>{2, 21, inner}, 1);
    x(1, 17, inner - 1) = std::numeric_limits<T>::quiet_NaN();
    auto m = unwritten<T>(shape<2>{2, inner});
    k.row_max(x.read(), m.view());
    CHECK(m(0, inner - 1) < 1);
    CHECK(std::isnan(m(1, inner - 1)));
    k.row_max(block<T const, 3>{nullptr, {2, 0, inner}}, m.view());
    CHECK(m(1, 0) == -std::numeric_limits<T>::infinity());
  }
  auto rows = unwritten<T>(shape<1>{3});
  k.row_max(tensor<T, 2>(shape<2>{3, 4}, T{2}).read(), rows.view());
  CHECK(worst(rows, tensor<double, 1>(shape<1>{3}, 2.0)) == 0);
}

}  // namespace tessera::test::softmax_suite
