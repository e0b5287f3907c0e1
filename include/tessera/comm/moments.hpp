#pragma once

#include <concepts>
#include <utility>

namespace tessera {

/// The statistics of a set of values: how many, their mean, and the sum of their squared distances from it.
///
/// `count` is of the same type as the others so that an array of them is one message; float counts are exact to 2^24
/// and rounded beyond.
template <std::floating_point T>
struct moments {
  T count = 0;
  T mean = 0;
  T m2 = 0;
};

/// The statistics of the union of two sets (T. Chan, G. Golub and R. LeVeque, "Updating formulae and a pairwise
/// algorithm for computing sample variances", 1979). A set of count 0 changes nothing.
///
/// The smaller set is merged into the larger one, so the result does not depend on the order of the arguments, to the
/// last bit: reductions that pair ranks up then give the same statistics on all of them.
template <std::floating_point T>
constexpr moments<T> merge(moments<T> a, moments<T> b) {
  if (b.count > a.count || (b.count == a.count && b.mean < a.mean)) std::swap(a, b);
  if (b.count == 0) return a;
  // In double for float too: the distance of two close means is all that the rounding of the mean has left.
  const double count = static_cast<double>(a.count) + static_cast<double>(b.count);
  const double delta = static_cast<double>(b.mean) - static_cast<double>(a.mean);
  const double share = static_cast<double>(b.count) / count;
  const double between = delta * delta * static_cast<double>(a.count) * share;
  return {static_cast<T>(count), static_cast<T>(static_cast<double>(a.mean) + delta * share),
          static_cast<T>(static_cast<double>(a.m2) + static_cast<double>(b.m2) + between)};
}

}  // namespace tessera
