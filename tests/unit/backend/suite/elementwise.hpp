#pragma once

#include "../reference.hpp"

#include <limits>

namespace tessera::test::elementwise_suite {
namespace {

/// Checks that `apply(a, b, y)` gives `of(a, b)` for each element, into a third block and in place of either operand.
template <class T, class Apply, class Of>
void check_flat(Apply apply, Of of) {
  for (index_t n : {0, 1, 7, 64, 1003}) {
    CAPTURE(n);
    const auto a = random_values<T>(shape<1>{n}, 1);
    const auto b = random_values<T>(shape<1>{n}, 2);
    tensor<double, 1> wanted(shape<1>{n});
    for (index_t i = 0; i < n; ++i) wanted(i) = of(static_cast<double>(a(i)), static_cast<double>(b(i)));
    auto y = unwritten<T>(shape<1>{n});
    auto in_a = a.clone();
    auto in_b = b.clone();
    apply(a.read(), b.read(), y.view());
    apply(in_a.read(), b.read(), in_a.view());
    apply(a.read(), in_b.read(), in_b.view());
    CHECK(worst(y, wanted) < tolerance<T>);
    CHECK(worst(in_a, wanted) < tolerance<T>);
    CHECK(worst(in_b, wanted) < tolerance<T>);
  }
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "flat kernels equal their formulas, in place too", T, TESSERA_ELEMENTS) {
  using in = block<T const, 1>;
  using out = block<T, 1>;
  suite_kernels k;
  check_flat<T>([&](in a, in b, out y) { k.add(a, b, y); }, [](double a, double b) { return a + b; });
  check_flat<T>([&](in a, in b, out y) { k.sub(a, b, y); }, [](double a, double b) { return a - b; });
  check_flat<T>([&](in a, in b, out y) { k.mul(a, b, y); }, [](double a, double b) { return a * b; });
  check_flat<T>([&](in a, in b, out y) { k.div(a, b, y); }, [](double a, double b) { return a / b; });
  check_flat<T>([&](in a, in b, out y) { k.relu_backward(a, b, y); }, [](double a, double b) { return a > 0 ? b : 0; });
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "kernels of one operand equal their formulas", T, TESSERA_ELEMENTS) {
  constexpr T huge = std::numeric_limits<T>::infinity();
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  suite_kernels kernels;
  for (index_t n : {0, 1, 19, 517}) {
    auto x = random_values<T>(shape<1>{n}, 1);
    if (n > 3) {
      x(0) = 0;
      x(1) = nan;
      x(2) = huge;
      x(3) = -huge;
    }
    const auto apply = [&](auto kernel, auto formula, T initial) {
      tensor<T, 1> y(shape<1>{n}, initial);
      tensor<double, 1> wanted(shape<1>{n});
      for (index_t i = 0; i < n; ++i) wanted(i) = formula(static_cast<double>(x(i)));
      kernel(y.view());
      CHECK(worst(y, wanted) < tolerance<T>);
    };
    const auto in = x.read();
    using out = block<T, 1>;
    apply([&](out y) { kernels.relu_forward(in, y); }, [](double v) { return v < 0 ? 0 : v; }, T{9});
    apply([&](out y) { kernels.scale(in, T{-3}, y); }, [](double v) { return -3 * v; }, T{9});
    apply([&](out y) { kernels.axpy(T{-3}, in, y); }, [](double v) { return 9 - 3 * v; }, T{9});
    apply([&](out y) { kernels.exp(in, y); }, [](double v) { return std::exp(v); }, T{9});
    apply([&](out y) { kernels.log(in, y); }, [](double v) { return std::log(v); }, T{9});
  }
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "the gradient of relu is 0 at 0", T, TESSERA_ELEMENTS) {
  const tensor<T, 1> y(shape<1>{40}, T{0});
  tensor<T, 1> dx(shape<1>{40}, T{7});
  suite_kernels kernels;
  kernels.relu_backward(y.read(), dx.read(), dx.view());
  CHECK(worst(dx, tensor<double, 1>(shape<1>{40}, 0.0)) == 0);
}

}  // namespace tessera::test::elementwise_suite
