#pragma once

#include "support/worlds.hpp"

#include <tessera/redistribute/to.hpp>

/// Gradients compared with central differences, in double.
namespace finite_differences {

/// The sum of all elements of `y`, brought to every rank, times `weights`: a loss whose gradient is `weights`.
template <tessera::sharded_tensor Y>
double weighted_sum(Y const& y, tessera::tensor<double, Y::rank> const& weights) {
  const auto all = tessera::gather(y);
  REQUIRE(all.extents() == weights.extents());
  double sum = 0;
  for (tessera::index_t i = 0; i < all.size(); ++i) sum += all.data()[i] * weights.data()[i];
  return sum;
}

/// Checks that `gradient` is that of `loss(x)` at x, element by element. All ranks call it together with the same
/// whole x; the error of a smooth loss of size 1 is about 1e-10.
template <int Rank, class Loss>
void check(Loss loss, tessera::tensor<double, Rank> const& x, tessera::tensor<double, Rank> const& gradient,
           double tolerance = 1e-7) {
  REQUIRE(gradient.extents() == x.extents());
  constexpr double step = 1e-5;
  for (tessera::index_t i = 0; i < x.size(); ++i) {
    CAPTURE(i);
    auto moved = x.clone();
    moved.data()[i] += step;
    const double above = loss(moved);
    moved.data()[i] -= 2 * step;
    const double below = loss(moved);
    const double wanted = (above - below) / (2 * step);
    CHECK(std::abs(gradient.data()[i] - wanted) <= tolerance * (1 + std::abs(wanted)));
  }
}

}  // namespace finite_differences
