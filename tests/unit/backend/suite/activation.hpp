#pragma once

#include "../reference.hpp"

#include <cmath>
#include <limits>

namespace tessera::test::activation_suite {
namespace {

using wide = long double;

wide normal(wide x) { return std::erfc(-x / std::sqrt(wide{2})) / 2; }
wide density(wide x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(wide{-1})); }
wide logistic(wide x) { return 1 / (1 + std::exp(-x)); }
wide inner(wide x) { return 2 * std::sqrt(2 / std::acos(wide{-1})) * (x + 0.044715L * x * x * x); }
wide inner_slope(wide x) { return 2 * std::sqrt(2 / std::acos(wide{-1})) * (1 + 3 * 0.044715L * x * x); }

/// A function, its derivative, and whether backward takes the output.
template <class T, class With>
void for_each_activation(With with) {
  using in = block<T const, 1>;
  using out = block<T, 1>;
  suite_kernels k;
  with(
      "gelu", [&](in x, out y) { k.gelu_forward(x, y); }, [&](in x, in dy, out dx) { k.gelu_backward(x, dy, dx); },
      [](wide x) { return x * normal(x); }, [](wide x) { return normal(x) + x * density(x); }, false);
  with(
      "gelu_tanh", [&](in x, out y) { k.gelu_tanh_forward(x, y); },
      [&](in x, in dy, out dx) { k.gelu_tanh_backward(x, dy, dx); }, [](wide x) { return x * logistic(inner(x)); },
      [](wide x) { return logistic(inner(x)) + x * logistic(inner(x)) * logistic(-inner(x)) * inner_slope(x); }, false);
  with(
      "silu", [&](in x, out y) { k.silu_forward(x, y); }, [&](in x, in dy, out dx) { k.silu_backward(x, dy, dx); },
      [](wide x) { return x * logistic(x); }, [](wide x) { return logistic(x) + x * logistic(x) * logistic(-x); },
      false);
  with(
      "sigmoid", [&](in x, out y) { k.sigmoid_forward(x, y); },
      [&](in y, in dy, out dx) { k.sigmoid_backward(y, dy, dx); }, [](wide x) { return logistic(x); },
      [](wide x) { return logistic(x) * logistic(-x); }, true);
  with(
      "tanh", [&](in x, out y) { k.tanh_forward(x, y); }, [&](in y, in dy, out dx) { k.tanh_backward(y, dy, dx); },
      [](wide x) { return std::tanh(x); }, [](wide x) { return 1 - std::tanh(x) * std::tanh(x); }, true);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "activations are right to the last digits over their whole range" *
                       doctest::skip(TESSERA_FLOAT_STATISTICS),
                   T, TESSERA_ELEMENTS) {
  constexpr wide rounding = std::numeric_limits<T>::epsilon();
  constexpr index_t n = 20011;
  tensor<T, 1> x(shape<1>{n});
  const auto dy = random_values<T>(shape<1>{n}, 5);
  for (index_t i = 0; i < n; ++i) x(i) = static_cast<T>(static_cast<double>(i - n / 2) / (n / 2) * 20);
  for_each_activation<T>([&](char const* name, auto forward, auto backward, auto f, auto slope, bool from_output) {
    CAPTURE(name);
    auto y = unwritten<T>(shape<1>{n});
    auto dx = unwritten<T>(shape<1>{n});
    forward(x.read(), y.view());
    backward((from_output ? y : x).read(), dy.read(), dx.view());
    wide worst_relative = 0;
    wide worst_gradient = 0;
    for (index_t i = 0; i < n; ++i) {
      const wide at = x(i);
      const wide wanted = f(at);
      // The lower tail is an exponential, which has the rounding of its argument in it.
      const wide tail = at < 0 ? at * at * (1 - at / 10) : 0;
      const wide allowed = rounding * (6 + tail) * std::abs(wanted) + 10 * std::numeric_limits<T>::min();
      worst_relative = std::max(worst_relative, std::abs(y(i) - wanted) / allowed);
      worst_gradient = std::max(worst_gradient, std::abs(dx(i) - dy(i) * slope(at)) / (3 * rounding));
    }
    CHECK(worst_relative <= 1);
    CHECK(worst_gradient <= 1);
  });
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "activations have their limits at infinity and keep NaN" *
                       doctest::skip(TESSERA_FLOAT_STATISTICS),
                   T, TESSERA_ELEMENTS) {
  constexpr T huge = std::numeric_limits<T>::infinity();
  constexpr T large = std::numeric_limits<T>::max();
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  const T arguments[] = {huge, -huge, large, -large, T{0}, nan};
  const tensor<T, 1> ones(shape<1>{6}, T{1});
  for_each_activation<T>([&](char const* name, auto forward, auto backward, auto, auto, bool from_output) {
    CAPTURE(name);
    const bool bounded = from_output;
    const double low = std::string_view(name) == "tanh" ? -1 : 0;
    tensor<T, 1> x(shape<1>{6});
    std::copy(std::begin(arguments), std::end(arguments), x.data());
    tensor<T, 1> y(shape<1>{6});
    tensor<T, 1> dx(shape<1>{6});
    forward(x.read(), y.view());
    backward((from_output ? y : x).read(), ones.read(), dx.view());
    const auto close = [](T found, double wanted) { return std::abs(static_cast<double>(found) - wanted) < 1e-30; };
    for (index_t i : {0, 2}) {
      CHECK(y(i) == (bounded ? T{1} : x(i)));
      CHECK(close(dx(i), bounded ? 0 : 1));
      CHECK(close(y(i + 1), low));
      CHECK(close(dx(i + 1), 0));
    }
    CHECK(y(4) == (std::string_view(name) == "sigmoid" ? T{0.5} : T{0}));
    CHECK(std::isnan(y(5)));
    CHECK(std::isnan(dx(5)));
  });
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "activations do not depend on where a number lies, nor on the blocks being one", T,
                   TESSERA_ELEMENTS) {
  for (index_t n : {0, 1, 7, 64, 1003}) {
    CAPTURE(n);
    const auto x = random_values<T>(shape<1>{n}, 1);
    const auto dy = random_values<T>(shape<1>{n}, 2);
    for_each_activation<T>([&](char const* name, auto forward, auto backward, auto, auto, bool) {
      CAPTURE(name);
      auto y = unwritten<T>(shape<1>{n});
      forward(x.read(), y.view());
      auto in_place = x.clone();
      forward(in_place.read(), in_place.view());
      auto dx = unwritten<T>(shape<1>{n});
      backward(x.read(), dy.read(), dx.view());
      auto in_dy = dy.clone();
      backward(x.read(), in_dy.read(), in_dy.view());
      auto in_x = x.clone();
      backward(in_x.read(), dy.read(), in_x.view());
      for (index_t i = 0; i < n; ++i) {
        CHECK(in_place(i) == y(i));
        CHECK(in_dy(i) == dx(i));
        CHECK(in_x(i) == dx(i));
      }
      if (n < 2) return;
      tensor<T, 1> shifted(shape<1>{n - 1});
      forward(block<T const, 1>{x.data() + 1, {n - 1}}, shifted.view());
      for (index_t i = 1; i < n; ++i) CHECK(shifted(i - 1) == y(i));
    });
  }
}

}  // namespace tessera::test::activation_suite
