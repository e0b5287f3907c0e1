#pragma once

#include <tessera/backend/ascend/broadcast_members.hpp>

#include <aclnnop/aclnn_matmul.h>
#include <aclnnop/aclnn_mm.h>

namespace tessera::detail::ascend_kernels {

/// Matrix products. Transposed operands are views with other strides: nothing is copied.
class matrix_members : public broadcast_members {
 public:
  using broadcast_members::broadcast_members;

  /// out = op(a) * op(b) [m, n], or out += with `accumulate`.
  void matmul(block<float const, 2> a, bool transpose_a, block<float const, 2> b, bool transpose_b, block<float, 2> out,
              bool accumulate = false) {
    const index_t inner = a.extents[transpose_a ? 0 : 1];
    if (out.empty()) return;
    if (inner == 0) {
      if (!accumulate) fill_with(out.data, out.size(), 0);
      return;
    }
    const auto left = matrix(a, transpose_a);
    const auto right = matrix(b, transpose_b);
    if (!accumulate) return run<TESSERA_ACLNN(Mm)>(left, right, view(out), cube());
    // Not aclnnAddmm, whose results may differ from run to run on the 910.
    const auto product = scratch(out.size());
    run<TESSERA_ACLNN(Mm)>(left, right, view(product.data, {out.extents[0], out.extents[1]}), cube());
    axpy(1, {product.data, {{out.size()}}}, {out.data, {{out.size()}}});
  }
  /// y [m, n] += bias [n] in every row.
  void add_bias(block<float, 2> y, block<float const, 1> bias) {
    if (!y.empty()) run<TESSERA_ACLNN(InplaceAdd)>(view(y), view(bias), number(1.0f));
  }
  /// out [n] = sum of the rows of dy [m, n].
  void sum_rows(block<float const, 2> dy, block<float, 1> out) {
    if (out.empty()) return;
    if (dy.empty()) return fill_with(out.data, out.size(), 0);
    run<TESSERA_ACLNN(ReduceSum)>(view(dy), integers({0}), false, ACL_FLOAT, view(out));
  }
  /// out = op(a) op(b) for each matrix of blocks [outer, inner, rows, columns]. An operand whose outer and inner
  /// extents are 1 is used for all of them; an output with such extents gets the sum.
  void batch_matmul(block<float const, 4, storage_order::row_major> a, bool transpose_a,
                    block<float const, 4, storage_order::row_major> b, bool transpose_b,
                    block<float, 4, storage_order::row_major> out) {
    if (out.empty()) return;
    if (a.empty() || b.empty()) return fill_with(out.data, out.size(), 0);
    const index_t outer = a.extents[0] > b.extents[0] ? a.extents[0] : b.extents[0];
    const index_t inner = a.extents[1] > b.extents[1] ? a.extents[1] : b.extents[1];
    const bool sums = outer * inner > out.extents[0] * out.extents[1];
    const bool all = a.extents[0] == b.extents[0] && a.extents[1] == b.extents[1];
    if (sums && all && transpose_a && !transpose_b) {
      // The sum of products of matrices below one another is one product.
      return matmul({a.data, {{outer * inner * a.extents[2], a.extents[3]}}}, true,
                    {b.data, {{outer * inner * b.extents[2], b.extents[3]}}}, false,
                    {out.data, {{out.extents[2], out.extents[3]}}});
    }
    const index_t rows = out.extents[2];
    const index_t columns = out.extents[3];
    const auto left = matrices(a, transpose_a);
    const auto right = matrices(b, transpose_b);
    if (!sums) return run<TESSERA_ACLNN(Matmul)>(left, right, view(out.data, {outer, inner, rows, columns}), cube());
    const auto each = scratch(outer * inner * rows * columns);
    const auto products = view(each.data, {outer, inner, rows, columns});
    run<TESSERA_ACLNN(Matmul)>(left, right, products, cube());
    run<TESSERA_ACLNN(ReduceSum)>(products, integers({0, 1}), true, ACL_FLOAT, view(out.data, {1, 1, rows, columns}));
  }

 private:
  static tensor_handle matrix(block<float const, 2> m, bool transposed) {
    const index_t rows = m.extents[0];
    const index_t columns = m.extents[1];
    return transposed ? view(m.data, {columns, rows}, {1, columns}) : view(m.data, {rows, columns});
  }
  static tensor_handle matrices(block<float const, 4, storage_order::row_major> m, bool transposed) {
    const auto [outer, inner, rows, columns] = m.extents.extents;
    const index_t each = rows * columns;
    return transposed ? view(m.data, {outer, inner, columns, rows}, {inner * each, each, 1, columns})
                      : view(m.data, {outer, inner, rows, columns});
  }
};

}  // namespace tessera::detail::ascend_kernels
