#pragma once

#include <doctest/doctest.h>
#include <tessera/backend/eigen.hpp>
#include <tessera/core/tensor.hpp>

#include <cmath>
#include <random>

namespace tessera::test {

/// Reproducible values in (-1, 1), exactly representable in float.
template <class T, int Rank>
tensor<T, Rank> random_values(shape<Rank> extents, unsigned seed) {
  std::mt19937 engine(seed);
  tensor<T, Rank> t(extents);
  for (T& v : t.view()) v = static_cast<T>(static_cast<double>(engine() % 65536) / 32768.0 - 1.0);
  return t;
}

/// A tensor of values that no kernel leaves behind, so that an output that was not written is seen.
template <class T, int Rank>
tensor<T, Rank> unwritten(shape<Rank> extents) {
  return tensor<T, Rank>(extents, static_cast<T>(12345));
}

template <class T>
constexpr double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;

/// Largest difference, relative to 1 + |wanted|; infinite where one of the two is NaN or one infinity meets another.
template <class T, int Rank>
double worst(tensor<T, Rank> const& found, tensor<double, Rank> const& wanted) {
  REQUIRE(found.extents() == wanted.extents());
  double most = 0;
  for (index_t i = 0; i < found.size(); ++i) {
    const auto a = static_cast<double>(found.data()[i]);
    const double b = wanted.data()[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double difference = std::abs(a - b) / (1 + std::abs(b));
    most = std::max(most, std::isnan(difference) ? INFINITY : difference);
  }
  return most;
}

template <class T, int Rank>
tensor<double, Rank> as_double(tensor<T, Rank> const& t) {
  tensor<double, Rank> d(t.extents());
  for (index_t i = 0; i < t.size(); ++i) d.data()[i] = static_cast<double>(t.data()[i]);
  return d;
}

}  // namespace tessera::test
