#pragma once

#include <tessera/backend/eigen/attention.hpp>
#include <tessera/backend/eigen/precompiled.hpp>

namespace tessera::detail {

/// Attention, as members of `eigen`. Log-sums and deltas are [batch, heads, queries], in double.
template <class Self>
class attention_members {
 public:
  /// out = softmax(scale * q k^T + mask) v, and the logarithm of each row's sum of exponentials: zeros and minus
  /// infinity where a query sees no key. With `continued` the keys are added to those that `out` and `log_sum` were
  /// made of. The rows of `mask`, if there is one, are those of the queries and have an element for each key of the
  /// sequence; minus infinity hides a key.
  template <class T>
  void attention_forward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_rows<T> out,
                         block<double, 3> log_sum, attention_geometry const& geometry, bool continued = false,
                         head_operand<T> mask = {}) {
    eigen_kernels::attention_forward<T>(q, k, v, out, log_sum, geometry, continued, mask, scratch());
  }
  /// delta = sum of out * dy over each row, for `attention_backward`.
  template <class T>
  void attention_delta(head_rows<T const> out, head_operand<T> dy, block<double, 3> delta,
                       attention_geometry const& geometry) {
    const index_t rows = geometry.heads * geometry.queries;
    scratch().split(geometry.batch, rows * geometry.value_width, [&](index_t begin, index_t end, auto&) {
      attention_geometry part = geometry;
      part.batch = end - begin;
      eigen_kernels::attention_delta<T>(out.one(begin, 0), dy.one(begin, 0),
                                        eigen_kernels::outer_part(delta, begin, end), part);
    });
  }
  /// Adds the gradients of q, k and v to dq, dk and dv. `log_sum` and `delta` are those over all keys of a query.
  template <class T>
  void attention_backward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_operand<T> dy,
                          block<double const, 3> log_sum, block<double const, 3> delta, head_rows<T> dq,
                          head_rows<T> dk, head_rows<T> dv, attention_geometry const& geometry,
                          head_operand<T> mask = {}) {
    eigen_kernels::attention_backward<T>(q, k, v, dy, log_sum, delta, dq, dk, dv, geometry, mask, scratch());
  }
  /// Copies head vectors of the extents [batch, heads, positions, width].
  template <class T>
  void copy_heads(head_operand<T> from, head_rows<T> to, shape<4> const& extents) {
    scratch().split(extents[0], extents[1] * extents[2] * extents[3], [&](index_t begin, index_t end, auto&) {
      eigen_kernels::copy_heads<T>(from.one(begin, 0), to.one(begin, 0),
                                   {{end - begin, extents[1], extents[2], extents[3]}});
    });
  }

 private:
  eigen_kernels::workspace& scratch() { return static_cast<Self*>(this)->scratch_; }
};

}  // namespace tessera::detail
