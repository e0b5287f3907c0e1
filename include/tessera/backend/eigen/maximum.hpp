#pragma once

#include <tessera/backend/eigen/broadcast.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera::detail::eigen_kernels {

/// y = the largest of x over the dimensions in which y has the extent 1: NaN where one is, minus infinity where there
/// is nothing.
template <class T>
void max_broadcast(operand<T, 6> x, block<T, 6> y, workspace& scratch) {
  const int parts = scratch.parts(x.size(), 1);
  const index_t results = results_of_parts(x.extents, y.extents, parts);
  const index_t size = y.size();
  T* largest = results == 1 ? y.data : scratch.get<T>(2, results * size);
  std::fill_n(largest, results * size, -std::numeric_limits<T>::infinity());
  for_reduced_parts<T>(x, y.extents, largest, parts, scratch, [](block<T const, 6> from, block<T, 6> result) {
    walk_broadcast(result.extents, result.extents, from.extents,
                   [&](index_t i, index_t to, index_t, index_t run, bool moves, bool) {
                     const auto values = array(from.data + i, run);
                     if (moves) {
                       auto most = array(result.data + to, run);
                       most = larger(most, values);
                     } else {
                       const T most = values.template maxCoeff<Eigen::PropagateNaN>();
                       if (most > result.data[to] || std::isnan(most)) result.data[to] = most;
                     }
                   });
  });
  if (results == 1) return;
  std::copy_n(largest, size, y.data);
  for (index_t k = 1; k < results; ++k) {
    auto most = array(y.data, size);
    most = larger(most, array(largest + k * size, size));
  }
}

/// Finds the first element of x that equals the maximum y over the dimensions in which y has the extent 1 (NaN equals
/// NaN). Elements are ordered by their place: the sum of `first` and of `weights` times their indices.
///
/// `at` gets the number of that element in x, -1 where there is none; `rank` gets minus its place, the least number
/// where there is none, so that the first of several blocks has the largest.
template <class T>
void first_maximum(operand<T, 6> x, operand<T, 6> y, std::array<index_t, 6> const& weights, index_t first,
                   block<std::int64_t, 6> at, block<std::int64_t, 6> rank) {
  std::fill(at.begin(), at.end(), std::int64_t{-1});
  std::fill(rank.begin(), rank.end(), std::numeric_limits<std::int64_t>::min());
  const auto place_of = [&](index_t element) {
    index_t place = first;
    for (int d = 5; d >= 0; --d) {
      place += element % x.extents[d] * weights[static_cast<std::size_t>(d)];
      element /= x.extents[d];
    }
    return place;
  };
  walk_broadcast(y.extents, y.extents, x.extents, [&](index_t i, index_t to, index_t, index_t run, bool moves, bool) {
    for (index_t j = 0; j < run; ++j) {
      const index_t r = to + (moves ? j : 0);
      const T value = x.data[i + j];
      if (value != y.data[r] && !(std::isnan(value) && std::isnan(y.data[r]))) continue;
      const index_t place = -place_of(i + j);
      if (place > rank.data[r]) {
        rank.data[r] = place;
        at.data[r] = i + j;
      }
    }
  });
}

/// dx = dy at the elements numbered `at` where `rank` is that of the first of all blocks, 0 elsewhere.
template <class T>
void max_backward(operand<T, 6> dy, block<std::int64_t const, 6> at, block<std::int64_t const, 6> rank,
                  block<std::int64_t const, 6> first_rank, block<T, 6> dx) {
  std::fill(dx.begin(), dx.end(), T{0});
  for (index_t i = 0; i < dy.size(); ++i)
    if (at.data[i] >= 0 && rank.data[i] == first_rank.data[i]) dx.data[at.data[i]] = dy.data[i];
}

}  // namespace tessera::detail::eigen_kernels
