#include "reference.hpp"

namespace tessera::test {

TEST_CASE_TEMPLATE("five steps of gradient descent follow the formula", T, float, double) {
  for (const double momentum : {0.0, 0.9}) {
    for (const bool nesterov : {false, true}) {
      const index_t n = 213;
      auto p = random_values<T>(shape<1>{n}, 1);
      // What lies in the buffer before the first step must not count.
      tensor<T, 1> buffer(shape<1>{momentum > 0 ? n : 0}, std::numeric_limits<T>::quiet_NaN());
      auto p_wanted = as_double(p);
      tensor<double, 1> buffer_wanted(shape<1>{n}, 0.0);
      eigen kernels;
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

TEST_CASE("no parameters, no step") {
  eigen kernels;
  kernels.sgd_update(block<float, 1>{}, block<float const, 1>{}, block<float, 1>{}, sgd_step{});
}

}  // namespace tessera::test
