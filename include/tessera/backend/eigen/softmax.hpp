#pragma once

#include <tessera/backend/eigen/exponential.hpp>
#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::detail::eigen_kernels {

// Blocks [outer, extent, inner] hold the values, blocks [outer, inner] one number for each row of `extent` values.
// Rows that lie together in memory (inner 1) are arrays of their own; otherwise `inner` rows go side by side.

template <class T>
void row_max(operand<T, 3> x, block<T, 2> maximum) {
  const auto [outer, extent, inner] = x.extents.extents;
  std::fill(maximum.begin(), maximum.end(), -std::numeric_limits<T>::infinity());
  if (extent == 0) return;
  for (index_t o = 0; o < outer; ++o) {
    T const* from = x.data + o * extent * inner;
    if (inner == 1) {
      maximum.data[o] = array(from, extent).template maxCoeff<Eigen::PropagateNaN>();
    } else {
      auto most = array(maximum.data + o * inner, inner);
      for (index_t e = 0; e < extent; ++e) most = larger(most, array(from + e * inner, inner));
    }
  }
}

template <class T>
void row_sum_exp(operand<T, 3> x, operand<T, 2> maximum, block<T, 2> sum) {
  const auto [outer, extent, inner] = x.extents.extents;
  std::fill(sum.begin(), sum.end(), T{0});
  for (index_t o = 0; o < outer; ++o) {
    T const* from = x.data + o * extent * inner;
    if (inner == 1) {
      sum.data[o] = (array(from, extent) - maximum.data[o]).exp().sum();
    } else {
      const auto most = array(maximum.data + o * inner, inner);
      auto total = array(sum.data + o * inner, inner);
      for (index_t e = 0; e < extent; ++e) total += (array(from + e * inner, inner) - most).exp();
    }
  }
}

/// y = exp(x - maximum) / sum.
template <class T>
void softmax_finish(operand<T, 3> x, operand<T, 2> maximum, operand<T, 2> sum, block<T, 3> y) {
  const auto [outer, extent, inner] = x.extents.extents;
  for (index_t o = 0; o < outer; ++o) {
    T const* from = x.data + o * extent * inner;
    T* to = y.data + o * extent * inner;
    if (inner == 1) {
      array(to, extent) =
          (array(from, extent) - maximum.data[o]).unaryExpr(exponential<T>{}) * (T{1} / sum.data[o]);
    } else {
      for (index_t e = 0; e < extent; ++e)
        array(to + e * inner, inner) = (array(from + e * inner, inner) - array(maximum.data + o * inner, inner))
                                           .unaryExpr(exponential<T>{}) /
                                       array(sum.data + o * inner, inner);
    }
  }
}

/// y = x - maximum - log(sum), subtracted in this order: both differences are exact where logits are huge.
template <class T>
void log_softmax_finish(operand<T, 3> x, operand<T, 2> maximum, operand<T, 2> sum, block<T, 3> y) {
  const auto [outer, extent, inner] = x.extents.extents;
  for (index_t o = 0; o < outer; ++o) {
    T const* from = x.data + o * extent * inner;
    T* to = y.data + o * extent * inner;
    if (inner == 1) {
      array(to, extent) = (array(from, extent) - maximum.data[o]) - std::log(sum.data[o]);
    } else {
      for (index_t e = 0; e < extent; ++e)
        array(to + e * inner, inner) = (array(from + e * inner, inner) - array(maximum.data + o * inner, inner)) -
                                       array(sum.data + o * inner, inner).log();
    }
  }
}

/// Sum over the row of y * dy.
template <class T>
void row_dot(operand<T, 3> y, operand<T, 3> dy, block<T, 2> dot) {
  const auto [outer, extent, inner] = y.extents.extents;
  std::fill(dot.begin(), dot.end(), T{0});
  for (index_t o = 0; o < outer; ++o) {
    const index_t at = o * extent * inner;
    if (inner == 1) {
      dot.data[o] = (array(y.data + at, extent) * array(dy.data + at, extent)).sum();
    } else {
      for (index_t e = at; e < at + extent * inner; e += inner)
        array(dot.data + o * inner, inner) += array(y.data + e, inner) * array(dy.data + e, inner);
    }
  }
}

/// Sum over the row of x.
template <class T>
void row_sum(operand<T, 3> x, block<T, 2> sum) {
  const auto [outer, extent, inner] = x.extents.extents;
  std::fill(sum.begin(), sum.end(), T{0});
  for (index_t o = 0; o < outer; ++o) {
    const index_t at = o * extent * inner;
    if (inner == 1) {
      sum.data[o] = array(x.data + at, extent).sum();
    } else {
      for (index_t e = at; e < at + extent * inner; e += inner)
        array(sum.data + o * inner, inner) += array(x.data + e, inner);
    }
  }
}

/// dx = y * (dy - dot).
template <class T>
void softmax_backward_finish(operand<T, 3> y, operand<T, 3> dy, operand<T, 2> dot, block<T, 3> dx) {
  const auto [outer, extent, inner] = y.extents.extents;
  for (index_t o = 0; o < outer; ++o) {
    const index_t at = o * extent * inner;
    if (inner == 1) {
      array(dx.data + at, extent) = array(y.data + at, extent) * (array(dy.data + at, extent) - dot.data[o]);
    } else {
      for (index_t e = at; e < at + extent * inner; e += inner)
        array(dx.data + e, inner) =
            array(y.data + e, inner) * (array(dy.data + e, inner) - array(dot.data + o * inner, inner));
    }
  }
}

/// dx = dy - exp(y) * sum.
template <class T>
void log_softmax_backward_finish(operand<T, 3> y, operand<T, 3> dy, operand<T, 2> sum, block<T, 3> dx) {
  const auto [outer, extent, inner] = y.extents.extents;
  for (index_t o = 0; o < outer; ++o) {
    const index_t at = o * extent * inner;
    if (inner == 1) {
      array(dx.data + at, extent) = array(dy.data + at, extent) - array(y.data + at, extent).exp() * sum.data[o];
    } else {
      for (index_t e = at; e < at + extent * inner; e += inner)
        array(dx.data + e, inner) =
            array(dy.data + e, inner) - array(y.data + e, inner).exp() * array(sum.data + o * inner, inner);
    }
  }
}

/// Calls `with(slice number o)` for blocks of one outer index, so that a row is still in cache for the next pass.
template <class T>
block<T, 3> outer_slice(block<T, 3> x, index_t o) {
  const index_t size = x.extents[1] * x.extents[2];
  return {x.data + o * size, {1, x.extents[1], x.extents[2]}};
}

/// The sum of exp(x - shift) over a row; the terms go to `terms`, which may be x, unless it is null. The last elements
/// are computed as a part of a packet too: a function call for each costs more than all before them in short rows.
template <class T>
T sum_exp(T const* x, index_t extent, T shift, T* terms) {
  using namespace Eigen::internal;
  using packet = typename packet_traits<T>::type;
  constexpr index_t width = packet_traits<T>::size;
  const auto from = pset1<packet>(shift);
  const auto exp_of = [&](T const* some) { return exponential<T>{}.packetOp(psub(ploadu<packet>(some), from)); };
  auto total = pzero(packet{});
  index_t i = 0;
  for (; i + width <= extent; i += width) {
    const packet term = exp_of(x + i);
    if (terms != nullptr) pstoreu(terms + i, term);
    total = padd(total, term);
  }
  T sum = predux(total);
  if (i == extent) return sum;
  T last[width];
  std::fill(std::copy(x + i, x + extent, last), last + width, shift);
  pstoreu(last, exp_of(last));
  for (T const* term = last; i < extent; ++i, ++term) {
    if (terms != nullptr) terms[i] = *term;
    sum += *term;
  }
  return sum;
}

/// The largest element of a row that is not empty; any number where one is NaN.
template <class T>
T some_maximum(T const* x, index_t extent) {
  using namespace Eigen::internal;
  using packet = typename packet_traits<T>::type;
  constexpr index_t width = packet_traits<T>::size;
  if (extent < width) return *std::max_element(x, x + extent);
  auto most = ploadu<packet>(x);
  for (index_t i = width; i + width <= extent; i += width) most = pmax(most, ploadu<packet>(x + i));
  return predux_max(pmax(most, ploadu<packet>(x + extent - width)));
}

template <class T>
void softmax_forward(operand<T, 3> x, block<T, 3> y, workspace& scratch) {
  const auto [outer, extent, inner] = x.extents.extents;
  if (inner == 1) {
    for (index_t o = 0; o < outer && extent > 0; ++o) {
      T const* from = x.data + o * extent;
      T* to = y.data + o * extent;
      // A NaN makes the sum NaN. The exponentials are kept, so that each is computed once.
      const T sum = sum_exp(from, extent, some_maximum(from, extent), to);
      array(to, extent) *= T{1} / sum;
    }
    return;
  }
  const block<T, 2> maximum{scratch.get<T>(0, inner), {1, inner}};
  const block<T, 2> sum{scratch.get<T>(1, inner), {1, inner}};
  for (index_t o = 0; o < outer; ++o) {
    const auto to = outer_slice(y, o);
    row_max<T>(outer_slice(x, o), maximum);
    for (index_t e = 0; e < extent; ++e)
      array(to.data + e * inner, inner) =
          (array(outer_slice(x, o).data + e * inner, inner) - array(maximum)).unaryExpr(exponential<T>{});
    row_sum<T>(to, sum);
    array(sum) = array(sum).inverse();
    for (index_t e = 0; e < extent; ++e) array(to.data + e * inner, inner) *= array(sum);
  }
}

template <class T>
void log_softmax_forward(operand<T, 3> x, block<T, 3> y, workspace& scratch) {
  const auto [outer, extent, inner] = x.extents.extents;
  const block<T, 2> maximum{scratch.get<T>(0, inner), {1, inner}};
  const block<T, 2> sum{scratch.get<T>(1, inner), {1, inner}};
  for (index_t o = 0; o < outer && extent > 0; ++o) {
    const auto from = outer_slice(x, o);
    if (inner == 1) {
      maximum.data[0] = some_maximum(from.data, extent);
      sum.data[0] = sum_exp<T>(from.data, extent, maximum.data[0], nullptr);
    } else {
      row_max<T>(from, maximum);
      row_sum_exp<T>(from, maximum, sum);
    }
    log_softmax_finish<T>(from, maximum, sum, outer_slice(y, o));
  }
}

template <class T>
void softmax_backward(operand<T, 3> y, operand<T, 3> dy, block<T, 3> dx, workspace& scratch) {
  const block<T, 2> dot{scratch.get<T>(0, y.extents[2]), {1, y.extents[2]}};
  for (index_t o = 0; o < y.extents[0]; ++o) {
    row_dot<T>(outer_slice(y, o), outer_slice(dy, o), dot);
    softmax_backward_finish<T>(outer_slice(y, o), outer_slice(dy, o), dot, outer_slice(dx, o));
  }
}

template <class T>
void log_softmax_backward(operand<T, 3> y, operand<T, 3> dy, block<T, 3> dx, workspace& scratch) {
  const block<T, 2> sum{scratch.get<T>(0, y.extents[2]), {1, y.extents[2]}};
  for (index_t o = 0; o < y.extents[0]; ++o) {
    row_sum<T>(outer_slice(dy, o), sum);
    log_softmax_backward_finish<T>(outer_slice(y, o), outer_slice(dy, o), sum, outer_slice(dx, o));
  }
}

}  // namespace tessera::detail::eigen_kernels
