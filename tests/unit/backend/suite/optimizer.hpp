#pragma once

#include "../reference.hpp"

namespace tessera::test::optimizer_suite {

TEST_CASE_TEMPLATE(TESSERA_BACKEND "five steps of gradient descent follow the formula", T, TESSERA_ELEMENTS) {
  for (const double momentum : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      const index_t n = 213;
      auto p = random_values<T>(shape<1>{n}, 1);
      // What lies in the buffer before the first step must not count.
      tensor<T, 1> buffer(shape<1>{momentum > 0 ? n : 0}, std::numeric_limits<T>::quiet_NaN());
      auto p_wanted = as_double(p);
      tensor<double, 1> buffer_wanted(shape<1>{n}, 0.0);
      suite_kernels kernels;
      for (unsigned step = 0; step < 5; ++step) {
        const auto g = random_values<T>(shape<1>{n}, 10 + step);
        sgd_step s;
        s.learning_rate = 0.05;
        s.momentum = momentum;
        s.dampening = nesterov ? 0 : 0.2;
        s.weight_decay = 0.1;
        s.nesterov = nesterov;
        s.first_step = step == 0;
        kernels.sgd_update(p.view(), g.read(), buffer.view(), s);
        for (index_t i = 0; i < n; ++i) {
          const double d = static_cast<double>(g(i)) + s.weight_decay * p_wanted(i);
          double update = d;
          if (momentum > 0) {
            double& b = buffer_wanted(i);
            b = s.first_step ? d : momentum * b + (1 - s.dampening) * d;
            update = nesterov ? d + momentum * b : b;
          }
          p_wanted(i) -= s.learning_rate * update;
        }
      }
      CHECK(worst(p, p_wanted) < tolerance<T>);
      if (momentum > 0) CHECK(worst(buffer, buffer_wanted) < tolerance<T>);
    }
  }
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "five steps of Adam follow the formula", T, TESSERA_ELEMENTS) {
  for (const bool decoupled : {false, true}) {
    const index_t n = 213;
    auto p = random_values<T>(shape<1>{n}, 1);
    tensor<T, 1> first(shape<1>{n}, T{0});
    tensor<T, 1> second(shape<1>{n}, T{0});
    auto p_wanted = as_double(p);
    tensor<double, 1> m(shape<1>{n}, 0.0);
    tensor<double, 1> v(shape<1>{n}, 0.0);
    suite_kernels kernels;
    for (unsigned step = 1; step <= 5; ++step) {
      const auto g = random_values<T>(shape<1>{n}, 10 + step);
      const adam_step s{0.05, 0.8, 0.95, 1e-6, 0.1, decoupled, step};
      kernels.adam_update(p.view(), g.read(), first.view(), second.view(), s);
      for (index_t i = 0; i < n; ++i) {
        if (decoupled) p_wanted(i) *= 1 - s.learning_rate * s.weight_decay;
        const double d = static_cast<double>(g(i)) + (decoupled ? 0 : s.weight_decay * p_wanted(i));
        m(i) = s.beta1 * m(i) + (1 - s.beta1) * d;
        v(i) = s.beta2 * v(i) + (1 - s.beta2) * d * d;
        const double m_hat = m(i) / (1 - std::pow(s.beta1, step));
        const double v_hat = v(i) / (1 - std::pow(s.beta2, step));
        p_wanted(i) -= s.learning_rate * m_hat / (std::sqrt(v_hat) + s.epsilon);
      }
    }
    CHECK(worst(p, p_wanted) < tolerance<T>);
    CHECK(worst(first, m) < tolerance<T>);
    CHECK(worst(second, v) < tolerance<T>);
  }
}

// The element in the middle of a packet and the one after the last packet go through different code.
TEST_CASE_TEMPLATE(TESSERA_BACKEND
                   "the first step of Adam moves by the learning rate, whatever the size of the gradient",
                   T, TESSERA_ELEMENTS) {
  constexpr T large = std::numeric_limits<T>::max();
  constexpr T tiny = std::numeric_limits<T>::min();
  for (const T size : {tiny, T{1e-8f}, T{1}, T{1e15f}}) {
    for (const T sign : {T{1}, T{-1}}) {
      tensor<T, 1> p(shape<1>{19}, T{0});
      const tensor<T, 1> g(shape<1>{19}, sign * size);
      tensor<T, 1> first(shape<1>{19}, T{0});
      tensor<T, 1> second(shape<1>{19}, T{0});
      suite_kernels kernels;
      kernels.adam_update(p.view(), g.read(), first.view(), second.view(), adam_step{0.5, 0.9, 0.999, 0, 0, false, 1});
      const double wanted = size == tiny ? p(0) : -0.5 * static_cast<double>(sign);
      // The square of the smallest number is zero: the quotient is infinite, and says so.
      if (size == tiny) CHECK(std::isinf(p(0)));
      for (index_t i = 0; i < 19; ++i)
        CHECK((static_cast<double>(p(i)) == wanted || std::abs(static_cast<double>(p(i)) - wanted) < 1e-6));
    }
  }
  // The square overflows: the step is 0, not NaN.
  tensor<T, 1> p(shape<1>{19}, T{3});
  const tensor<T, 1> g(shape<1>{19}, large);
  tensor<T, 1> first(shape<1>{19}, T{0});
  tensor<T, 1> second(shape<1>{19}, T{0});
  suite_kernels kernels;
  kernels.adam_update(p.view(), g.read(), first.view(), second.view(), adam_step{0.5, 0.9, 0.999, 1e-8, 0, false, 1});
  for (index_t i = 0; i < 19; ++i) CHECK(p(i) == T{3});
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "Adam passes NaN on to its own element only", T, TESSERA_ELEMENTS) {
  tensor<T, 1> p(shape<1>{19}, T{1});
  tensor<T, 1> g(shape<1>{19}, T{1});
  g(2) = g(18) = std::numeric_limits<T>::quiet_NaN();
  tensor<T, 1> first(shape<1>{19}, T{0});
  tensor<T, 1> second(shape<1>{19}, T{0});
  suite_kernels kernels;
  kernels.adam_update(p.view(), g.read(), first.view(), second.view(), adam_step{0.5, 0.9, 0.999, 1e-8, 0, false, 1});
  for (index_t i = 0; i < 19; ++i) CHECK(std::isnan(p(i)) == (i == 2 || i == 18));
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "the sum of squares is that of double numbers", T, TESSERA_ELEMENTS) {
  suite_kernels kernels;
  for (const index_t n : {0, 1, 3, 4, 7, 8, 213}) {
    const auto x = random_values<T>(shape<1>{n}, 5);
    double wanted = 0;
    for (const T v : x.read()) wanted += static_cast<double>(v) * static_cast<double>(v);
    CHECK(std::abs(kernels.square_sum(x.read()) - wanted) <= 1e-13 * wanted);
  }
  // Squares that a float cannot hold.
  const tensor<T, 1> large(shape<1>{5}, T{1e30f});
  CHECK(kernels.square_sum(large.read()) == doctest::Approx(5e60));
  tensor<T, 1> x(shape<1>{5}, T{1});
  x(4) = std::numeric_limits<T>::quiet_NaN();
  CHECK(std::isnan(kernels.square_sum(x.read())));
  x(4) = -std::numeric_limits<T>::infinity();
  CHECK(kernels.square_sum(x.read()) == std::numeric_limits<double>::infinity());
}

TEST_CASE(TESSERA_BACKEND "no parameters, no step") {
  suite_kernels kernels;
  kernels.sgd_update(block<float, 1>{}, block<float const, 1>{}, block<float, 1>{}, sgd_step{});
  kernels.adam_update(block<float, 1>{}, block<float const, 1>{}, block<float, 1>{}, block<float, 1>{}, adam_step{});
}

}  // namespace tessera::test::optimizer_suite
