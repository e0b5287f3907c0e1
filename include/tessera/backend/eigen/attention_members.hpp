#pragma once

#include <tessera/backend/eigen/attention.hpp>
#include <tessera/backend/eigen/precompiled.hpp>

namespace tessera::detail {

/// Attention, as members of `eigen`. Log-sums and deltas are [batch, heads, queries], in double.
template <class Self>
class attention_members {
 public:
  /// out = softmax(scale * q k^T) v, and the logarithm of each row's sum of exponentials: zeros and minus infinity
  /// where a query sees no key. With `continued` the keys are added to those that `out` and `log_sum` were made of.
  template <class T>
  void attention_forward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_rows<T> out,
                         block<double, 3> log_sum, attention_geometry const& geometry, bool continued = false) {
    eigen_kernels::attention_forward<T>(q, k, v, out, log_sum, geometry, continued, scratch());
  }
  /// delta = sum of out * dy over each row, for `attention_backward`.
  template <class T>
  void attention_delta(head_rows<T const> out, head_operand<T> dy, block<double, 3> delta,
                       attention_geometry const& geometry) {
    eigen_kernels::attention_delta<T>(out, dy, delta, geometry);
  }
  /// Adds the gradients of q, k and v to dq, dk and dv. `log_sum` and `delta` are those over all keys of a query.
  template <class T>
  void attention_backward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_operand<T> dy,
                          block<double const, 3> log_sum, block<double const, 3> delta, head_rows<T> dq,
                          head_rows<T> dk, head_rows<T> dv, attention_geometry const& geometry) {
    eigen_kernels::attention_backward<T>(q, k, v, dy, log_sum, delta, dq, dk, dv, geometry, scratch());
  }
  /// Copies head vectors of the extents [batch, heads, positions, width].
  template <class T>
  void copy_heads(head_operand<T> from, head_rows<T> to, shape<4> const& extents) {
    eigen_kernels::copy_heads<T>(from, to, extents);
  }

 private:
  eigen_kernels::workspace& scratch() { return static_cast<Self*>(this)->scratch_; }
};

}  // namespace tessera::detail
