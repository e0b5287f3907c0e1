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

/// The first dimension of more than one element.
inline int outermost(shape<6> const& extents) {
  int dim = 0;
  while (dim < 5 && extents[dim] == 1) ++dim;
  return dim;
}

/// `some` of dimension `dim`, before which there are only extents of 1.
template <class T>
block<T, 6> along_outermost(block<T, 6> whole, int dim, interval some) {
  index_t each = 1;
  for (int d = dim + 1; d < 6; ++d) each *= whole.extents[d];
  whole.data += some.begin * each;
  whole.extents[dim] = some.size;
  return whole;
}

/// y = combine(a, b) where extents of 1 are repeated to those of y. `combine` takes packets or numbers.
template <class T, class Combine>
void broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y, workspace& scratch, Combine combine) {
  if (y.empty()) return;
  const writer<T> write(y.size(), a.data == y.data || b.data == y.data);
  const int dim = outermost(y.extents);
  scratch.split(y.extents[dim], y.size() / y.extents[dim], [&](index_t begin, index_t end, workspace&) {
    const interval some{begin, end - begin};
    // An operand of extent 1 is repeated, unless the result has that extent too.
    const auto of = [&](operand<T, 6> whole) {
      return whole.extents[dim] == y.extents[dim] ? along_outermost(whole, dim, some) : whole;
    };
    const auto first = of(a);
    const auto second = of(b);
    const auto result = along_outermost(y, dim, some);
    walk_broadcast(first.extents, second.extents, result.extents,
                   [&](index_t i, index_t from_a, index_t from_b, index_t run, bool moves_a, bool moves_b) {
                     T const* one = first.data + from_a;
                     T const* two = second.data + from_b;
                     const auto repeat = [](auto kind, T const* value) {
                       using V = decltype(kind);
                       if constexpr (std::is_same_v<V, T>)
                         return *value;
                       else
                         return Eigen::internal::pset1<V>(*value);
                     };
                     write(result.data + i, run, [=]<class V>(index_t j) {
                       return combine(moves_a ? load<V>(one + j) : repeat(V{}, one),
                                      moves_b ? load<V>(two + j) : repeat(V{}, two));
                     });
                   });
  });
}

/// Calls `with(part of x, what it is reduced to)` on each thread for parts of the outermost dimension of x, `parts` in
/// all. Results lie from `to` on: parts of y's extents, or where y has the extent 1 there, all of y's for each part.
template <class T, class To, class With>
void for_reduced_parts(operand<T, 6> x, shape<6> const& y, To* to, int parts, workspace& scratch, With with) {
  const int dim = outermost(x.extents);
  const bool kept = y[dim] == x.extents[dim];
  scratch.run(parts, [&](int part, workspace&) {
    const interval some = cut({0, x.extents[dim]}, parts, part);
    block<To, 6> result{to, y};
    result = kept ? along_outermost(result, dim, some) : block<To, 6>{to + part * y.size(), y};
    with(along_outermost(x, dim, some), result);
  });
}

/// How many parts of its own size a reduction to `y` writes: one for each thread where the outermost dimension is
/// reduced.
inline index_t results_of_parts(shape<6> const& x, shape<6> const& y, int parts) {
  const int dim = outermost(x);
  return y[dim] == x[dim] ? 1 : parts;
}

/// The sum of neighbours in memory: of up to 512 in T, of these sums in double. Eigen's packets do not widen: the sum
/// of a cast is eleven times as slow. The order of additions depends on `count` alone, not on where the numbers lie.
template <class T>
double sum_of_run(T const* values, index_t count) {
  using packet = typename Eigen::internal::packet_traits<T>::type;
  constexpr index_t width = Eigen::internal::packet_traits<T>::size;
  using Eigen::internal::padd;
  double total = 0;
  for (index_t i = 0; i < count;) {
    const index_t end = std::min<index_t>(count, i + 512);
    T sum = 0;
    if (i + width <= end) {
      packet sums[4];  // additions under way
      for (packet& some : sums) some = Eigen::internal::pset1<packet>(T{0});
      for (; i + 4 * width <= end; i += 4 * width)
        for (index_t k = 0; k < 4; ++k) sums[k] = padd(sums[k], load<packet>(values + i + k * width));
      for (; i + width <= end; i += width) sums[0] = padd(sums[0], load<packet>(values + i));
      sum = Eigen::internal::predux(padd(padd(sums[0], sums[1]), padd(sums[2], sums[3])));
    }
    for (; i < end; ++i) sum += values[i];
    total += static_cast<double>(sum);
  }
  return total;
}

/// y = sum of x over the dimensions in which y has the extent 1. Accumulated in double (neighbours by `sum_of_run`);
/// where the threads have sums of the same element, these are added in order.
template <class T>
void sum_broadcast(operand<T, 6> x, block<T, 6> y, workspace& scratch) {
  const int parts = scratch.parts(x.size(), 1);
  const index_t results = results_of_parts(x.extents, y.extents, parts);
  const index_t size = y.size();
  double* sums = scratch.get<double>(2, results * size);
  std::fill_n(sums, results * size, 0.0);
  for_reduced_parts<T>(x, y.extents, sums, parts, scratch, [](block<T const, 6> from, block<double, 6> total) {
    walk_broadcast(total.extents, total.extents, from.extents,
                   [&](index_t i, index_t to, index_t, index_t run, bool moves, bool) {
                     T const* values = from.data + i;
                     if (moves) {
                       for (index_t j = 0; j < run; ++j) total.data[to + j] += static_cast<double>(values[j]);
                     } else {
                       total.data[to] += sum_of_run(values, run);
                     }
                   });
  });
  for (index_t k = 1; k < results; ++k) array(sums, size) += array(sums + k * size, size);
  for (index_t i = 0; i < size; ++i) y.data[i] = static_cast<T>(sums[i]);
}

}  // namespace tessera::detail::eigen_kernels
