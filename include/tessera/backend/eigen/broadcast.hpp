#pragma once

#include <tessera/backend/eigen/writer.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>

namespace tessera::detail::eigen_kernels {

/// How the elements of an operand lie beside those of `whole`: distances for each dimension, 0 where it is repeated.
inline std::array<index_t, 6> repeated_strides(shape<6> const& part, shape<6> const& whole) {
  std::array<index_t, 6> strides{};
  index_t step = 1;
  for (int d = 5; d >= 0; --d) {
    if (part[d] == whole[d]) strides[static_cast<std::size_t>(d)] = step;
    step *= part[d];
  }
  return strides;
}

/// Walks a block of six dimensions in memory order, in runs as long as both operands allow: along a run an operand
/// moves on by one element or stays. Calls `with(element of the block, of a, of b, elements, a moves, b moves)`.
template <class With>
void walk_broadcast(shape<6> const& a, shape<6> const& b, shape<6> const& whole, With with) {
  if (whole.size() == 0) return;
  const auto step_a = repeated_strides(a, whole);
  const auto step_b = repeated_strides(b, whole);
  // Dimensions that neither operand begins or ends to repeat are one run; extents of 1 belong to any.
  index_t run = 1;
  int outer = 6;
  bool moves_a = false;
  bool moves_b = false;
  for (; outer > 0; --outer) {
    const auto d = static_cast<std::size_t>(outer - 1);
    if (whole[outer - 1] == 1) continue;
    if (run > 1 && ((step_a[d] != 0) != moves_a || (step_b[d] != 0) != moves_b)) break;
    moves_a = step_a[d] != 0;
    moves_b = step_b[d] != 0;
    run *= whole[outer - 1];
  }
  std::array<index_t, 6> at{};
  index_t from_a = 0;
  index_t from_b = 0;
  for (index_t i = 0; i < whole.size(); i += run) {
    with(i, from_a, from_b, run, moves_a, moves_b);
    for (int p = outer - 1; p >= 0; --p) {
      const auto d = static_cast<std::size_t>(p);
      from_a += step_a[d];
      from_b += step_b[d];
      if (++at[d] < whole[p]) break;
      from_a -= step_a[d] * whole[p];
      from_b -= step_b[d] * whole[p];
      at[d] = 0;
    }
  }
}

/// y = combine(a, b) where extents of 1 are repeated to those of y. `combine` takes packets or numbers.
template <class T, class Combine>
void broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y, Combine combine) {
  const writer<T> write(y.size(), a.data == y.data || b.data == y.data);
  walk_broadcast(a.extents, b.extents, y.extents,
                 [&](index_t i, index_t from_a, index_t from_b, index_t run, bool moves_a, bool moves_b) {
                   T const* one = a.data + from_a;
                   T const* two = b.data + from_b;
                   const auto repeat = [](auto kind, T const* value) {
                     using V = decltype(kind);
                     if constexpr (std::is_same_v<V, T>)
                       return *value;
                     else
                       return Eigen::internal::pset1<V>(*value);
                   };
                   write(y.data + i, run, [=]<class V>(index_t j) {
                     return combine(moves_a ? load<V>(one + j) : repeat(V{}, one),
                                    moves_b ? load<V>(two + j) : repeat(V{}, two));
                   });
                 });
}

/// y = sum of x over the dimensions in which y has the extent 1. Accumulated in double.
template <class T>
void sum_broadcast(operand<T, 6> x, block<T, 6> y, workspace& scratch) {
  double* sums = scratch.get<double>(2, y.size());
  std::fill_n(sums, y.size(), 0.0);
  walk_broadcast(y.extents, y.extents, x.extents, [&](index_t i, index_t to, index_t, index_t run, bool moves, bool) {
    T const* from = x.data + i;
    if (moves) {
      for (index_t j = 0; j < run; ++j) sums[to + j] += static_cast<double>(from[j]);
    } else {
      sums[to] += array(from, run).template cast<double>().sum();
    }
  });
  for (index_t i = 0; i < y.size(); ++i) y.data[i] = static_cast<T>(sums[i]);
}

}  // namespace tessera::detail::eigen_kernels
