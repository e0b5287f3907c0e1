#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/settings.hpp>

#include <algorithm>
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
      array(to, extent) = (array(from, extent) - maximum.data[o]).exp() * (T{1} / sum.data[o]);
    } else {
      for (index_t e = 0; e < extent; ++e)
        array(to + e * inner, inner) = (array(from + e * inner, inner) - array(maximum.data + o * inner, inner)).exp() /
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

template <class T>
void softmax_forward(operand<T, 3> x, block<T, 3> y, workspace& scratch) {
  const auto [outer, extent, inner] = x.extents.extents;
  const block<T, 2> maximum{scratch.get<T>(0, inner), {1, inner}};
  const block<T, 2> sum{scratch.get<T>(1, inner), {1, inner}};
  for (index_t o = 0; o < outer; ++o) {
    const auto to = outer_slice(y, o);
    row_max<T>(outer_slice(x, o), maximum);
    // The exponentials are kept, so that each is computed once.
    for (index_t e = 0; e < extent; ++e) {
      if (inner == 1) {
        array(to) = (array(outer_slice(x, o)) - maximum.data[0]).exp();
        break;
      }
      array(to.data + e * inner, inner) = (array(outer_slice(x, o).data + e * inner, inner) - array(maximum)).exp();
    }
    row_sum<T>(to, sum);
    array(sum) = array(sum).inverse();
    for (index_t e = 0; e < extent; ++e) {
      if (inner == 1) {
        array(to) *= sum.data[0];
        break;
      }
      array(to.data + e * inner, inner) *= array(sum);
    }
  }
}

template <class T>
void log_softmax_forward(operand<T, 3> x, block<T, 3> y, workspace& scratch) {
  const index_t inner = x.extents[2];
  const block<T, 2> maximum{scratch.get<T>(0, inner), {1, inner}};
  const block<T, 2> sum{scratch.get<T>(1, inner), {1, inner}};
  for (index_t o = 0; o < x.extents[0]; ++o) {
    row_max<T>(outer_slice(x, o), maximum);
    row_sum_exp<T>(outer_slice(x, o), maximum, sum);
    log_softmax_finish<T>(outer_slice(x, o), maximum, sum, outer_slice(y, o));
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
