#pragma once

#include <Eigen/Core>

#include <cmath>
#include <limits>

namespace tessera::detail::eigen_kernels {

/// exp(x), and 0 where that is below the smallest normal number: Eigen's own is never less than a subnormal one, not
/// even at minus infinity. For probabilities: `array(...).unaryExpr(exponential<T>{})`.
template <class T>
struct exponential {
  static T least() { return std::log(std::numeric_limits<T>::min()); }

  T operator()(T x) const { return x < least() ? T{0} : std::exp(x); }
  template <class Packet>
  Packet packetOp(Packet const& x) const {
    using namespace Eigen::internal;
    return pselect(pcmp_lt(x, pset1<Packet>(least())), pzero(x), pexp(x));
  }
};

}  // namespace tessera::detail::eigen_kernels

template <class T>
struct Eigen::internal::functor_traits<tessera::detail::eigen_kernels::exponential<T>>
    : Eigen::internal::functor_traits<Eigen::internal::scalar_exp_op<T>> {};
