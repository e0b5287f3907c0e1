#pragma once

#include <tessera/backend/eigen/writer.hpp>
#include <tessera/backend/settings.hpp>

#include <cmath>

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

/// Square roots to the last bit: Eigen's own of some packets are approximate, and wrong for infinity.
template <class V>
V square_root(V const& x) {
  return Eigen::internal::psqrt(x);
}
#if defined(EIGEN_VECTORIZE_AVX512)
inline Eigen::internal::Packet16f square_root(Eigen::internal::Packet16f const& x) { return _mm512_sqrt_ps(x); }
inline Eigen::internal::Packet8d square_root(Eigen::internal::Packet8d const& x) { return _mm512_sqrt_pd(x); }
#elif defined(EIGEN_VECTORIZE_AVX)
inline Eigen::internal::Packet8f square_root(Eigen::internal::Packet8f const& x) { return _mm256_sqrt_ps(x); }
#elif defined(EIGEN_VECTORIZE_SSE)
inline Eigen::internal::Packet4f square_root(Eigen::internal::Packet4f const& x) { return _mm_sqrt_ps(x); }
#endif

template <class T>
void adam_update(block<T, 1> parameter, operand<T, 1> gradient, block<T, 1> first, block<T, 1> second, adam_step step) {
  using namespace Eigen::internal;
  const auto correction = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(step.number)); };
  const T rate = static_cast<T>(step.learning_rate / correction(step.beta1));
  const T root = static_cast<T>(1 / std::sqrt(correction(step.beta2)));
  const T epsilon = static_cast<T>(step.epsilon);
  const T keep = static_cast<T>(step.decoupled ? 1 - step.learning_rate * step.weight_decay : 1);
  const T decay = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
  const T old1 = static_cast<T>(step.beta1);
  const T new1 = static_cast<T>(1 - step.beta1);
  const T old2 = static_cast<T>(step.beta2);
  const T new2 = static_cast<T>(1 - step.beta2);
  T* p = parameter.data;
  T* m = first.data;
  T* v = second.data;
  const auto one = [=, g = gradient.data]<class V>(index_t i, V*) {
    const V from = pmul(pset1<V>(keep), load<V>(p + i));
    const V d = padd(load<V>(g + i), pmul(pset1<V>(decay), from));
    const V mean = padd(pmul(pset1<V>(old1), load<V>(m + i)), pmul(pset1<V>(new1), d));
    const V square = padd(pmul(pset1<V>(old2), load<V>(v + i)), pmul(pmul(pset1<V>(new2), d), d));
    const V scale = padd(pmul(pset1<V>(root), square_root(square)), pset1<V>(epsilon));
    pstoreu(m + i, mean);
    pstoreu(v + i, square);
    pstoreu(p + i, psub(from, pdiv(pmul(pset1<V>(rate), mean), scale)));
  };
  using packet = typename packet_traits<T>::type;
  constexpr index_t width = packet_traits<T>::size;
  const index_t n = parameter.size();
  index_t i = 0;
  for (; i + width <= n; i += width) one(i, static_cast<packet*>(nullptr));
  for (; i < n; ++i) one(i, static_cast<T*>(nullptr));
}

template <class T>
double square_sum(block<T const, 1> x) {
  // Several sums, so that one addition need not wait for the one before.
  double sums[4] = {};
  const auto add = [&](int way, index_t i) {
    const auto value = static_cast<double>(x.data[i]);
    sums[way] += value * value;
  };
  const index_t n = x.size();
  index_t i = 0;
  for (; i + 4 <= n; i += 4) {
    add(0, i);
    add(1, i + 1);
    add(2, i + 2);
    add(3, i + 3);
  }
  for (; i < n; ++i) add(0, i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace tessera::detail::eigen_kernels
