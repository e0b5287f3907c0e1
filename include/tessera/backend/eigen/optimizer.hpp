#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

namespace tessera::detail::eigen_kernels {

template <class T>
void sgd_update(block<T, 1> parameter, operand<T, 1> gradient, block<T, 1> buffer, sgd_step step) {
  const T rate = static_cast<T>(step.learning_rate);
  const T momentum = static_cast<T>(step.momentum);
  const T decay = static_cast<T>(step.weight_decay);
  const T fresh = step.first_step ? T{1} : static_cast<T>(1 - step.dampening);
  const index_t n = parameter.size();
  T* __restrict p = parameter.data;
  T const* __restrict g = gradient.data;
  T* __restrict b = buffer.data;
  if (b == nullptr || buffer.size() == 0) {
    for (index_t i = 0; i < n; ++i) p[i] -= rate * (g[i] + decay * p[i]);
  } else {
    // What the buffer held before the first step is not read as a number: it may be uninitialised.
    const bool first = step.first_step;
    const T ahead = step.nesterov ? momentum : T{1};
    const T now = step.nesterov ? T{1} : T{0};
    if (first) {
      for (index_t i = 0; i < n; ++i) {
        const T d = g[i] + decay * p[i];
        b[i] = d;
        p[i] -= rate * (now * d + ahead * d);
      }
    } else {
      for (index_t i = 0; i < n; ++i) {
        const T d = g[i] + decay * p[i];
        b[i] = momentum * b[i] + fresh * d;
        p[i] -= rate * (now * d + ahead * b[i]);
      }
    }
  }
}

}  // namespace tessera::detail::eigen_kernels
