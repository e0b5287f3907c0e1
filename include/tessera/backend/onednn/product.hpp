#pragma once

#include <tessera/backend/eigen/workspace.hpp>
#include <tessera/backend/onednn/library.hpp>
#include <tessera/backend/progress.hpp>
#include <tessera/core/error.hpp>

#include <algorithm>
#include <string>

namespace tessera::detail::onednn_kernels {

/// out = op(a) op(b) [m, n], or out += with `accumulate`; op transposes where the flag says so. On the threads that
/// OpenMP has for the calling one; on this alone inside of a part.
inline void multiply(block<float const, 2> a, bool transpose_a, block<float const, 2> b, bool transpose_b,
                     block<float, 2> out, bool accumulate) {
  const index_t k = a.extents[transpose_a ? 0 : 1];
  if (out.empty()) return;
  if (k == 0) {
    // The library leaves the output as it is.
    if (!accumulate) std::fill(out.begin(), out.end(), 0.0f);
    return;
  }
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', out.extents[0], out.extents[1], k, 1.0f, a.data,
                 a.extents[1], b.data, b.extents[1], accumulate ? 1.0f : 0.0f, out.data, out.extents[1]);
  if (status != dnnl_success)
    throw error("a failure of oneDNN's matrix product, status " + std::to_string(status),
                "a product of matrices " + to_string(a.extents) + " and " + to_string(b.extents),
                "compute it with the backend eigen");
  make_progress();
}

/// The matrices of a block [outer, 1, rows, columns].
template <class T>
struct matrix_stack {
  block<T, 4> whole;

  index_t count() const { return whole.extents[0]; }
  block<T, 2> operator[](index_t i) const {
    const shape<2> one{{whole.extents[2], whole.extents[3]}};
    return {whole.data + (count() == 1 ? 0 : i * one.size()), one};
  }
  /// All of them, one below the other.
  block<T, 2> together() const { return {whole.data, {count() * whole.extents[2], whole.extents[3]}}; }
};

/// `eigen::batch_matmul` of blocks that are not empty and whose inner extents are 1.
inline void multiply_each(block<float const, 4> a, bool transpose_a, block<float const, 4> b, bool transpose_b,
                          block<float, 4> out, eigen_kernels::workspace& scratch) {
  const matrix_stack<float const> left{a};
  const matrix_stack<float const> right{b};
  const matrix_stack<float> result{out};
  const index_t count = std::max(left.count(), right.count());
  if (!transpose_a && right.count() == 1 && result.count() == count)
    return multiply(left.together(), false, right[0], transpose_b, result.together(), false);
  if (transpose_a && !transpose_b && result.count() == 1 && left.count() == right.count())
    return multiply(left.together(), true, right.together(), false, result[0], false);
  const auto some = [&](index_t begin, index_t end, auto&) {
    for (index_t i = begin; i < end; ++i)
      multiply(left[i], transpose_a, right[i], transpose_b, result[i], result.count() == 1 && i > 0);
  };
  if (result.count() == count)
    scratch.split(count, result[0].size() * ((a.extents[transpose_a ? 2 : 3] + 15) / 16), some);
  else
    some(0, count, scratch);
}

}  // namespace tessera::detail::onednn_kernels
