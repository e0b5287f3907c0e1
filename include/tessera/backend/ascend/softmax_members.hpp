#pragma once

#include <tessera/backend/ascend/convolution_members.hpp>

#include <aclnnop/aclnn_logsoftmax.h>
#include <aclnnop/aclnn_logsoftmax_backward.h>
#include <aclnnop/aclnn_softmax.h>
#include <aclnnop/aclnn_softmax_backward.h>

namespace tessera::detail::ascend_kernels {

/// Softmax over the middle dimension of blocks [outer, extent, inner]; numbers of rows are [outer, inner].
class softmax_members : public convolution_members {
 public:
  using convolution_members::convolution_members;
  using in3 = block<float const, 3>;
  using out3 = block<float, 3>;
  using of_rows = block<float const, 2>;
  using rows = block<float, 2>;

  // Whole rows.

  void softmax_forward(in3 x, out3 y) {
    if (!y.empty()) run<TESSERA_ACLNN(Softmax)>(view(x), index_t{1}, view(y));
  }
  void softmax_backward(in3 y, in3 dy, out3 dx) {
    if (!dx.empty()) run<TESSERA_ACLNN(SoftmaxBackward)>(view(dy), view(y), index_t{1}, view(dx));
  }
  void log_softmax_forward(in3 x, out3 y) {
    if (!y.empty()) run<TESSERA_ACLNN(LogSoftmax)>(view(x), index_t{1}, view(y));
  }
  void log_softmax_backward(in3 y, in3 dy, out3 dx) {
    if (!dx.empty()) run<TESSERA_ACLNN(LogSoftmaxBackward)>(view(dy), view(y), index_t{1}, view(dx));
  }

  // The pieces, for rows that are split over ranks.

  /// Largest of each row: NaN if one is NaN, minus infinity if the row is empty.
  void row_max(in3 x, rows maximum) {
    if (maximum.empty()) return;
    if (x.empty()) return fill_with(maximum.data, maximum.size(), -std::numeric_limits<float>::infinity());
    run<TESSERA_ACLNN(Amax)>(view(x), integers({1}), false, view(maximum));
  }
  void row_max(block<float const, 2> x, block<float, 1> maximum) {
    row_max(in3{x.data, {{x.extents[0], x.extents[1], 1}}}, rows{maximum.data, {{x.extents[0], 1}}});
  }
  /// Sum of exp(x - maximum).
  void row_sum_exp(in3 x, of_rows maximum, rows sum) {
    const auto exponentials = scratch(x.size());
    const out3 e{exponentials.data, x.extents};
    if (!x.empty()) exp_of_difference(x, maximum, e);
    row_sum(e, sum);
  }
  /// y = exp(x - maximum) / sum.
  void softmax_finish(in3 x, of_rows maximum, of_rows sum, out3 y) {
    if (y.empty()) return;
    exp_of_difference(x, maximum, y);
    run<TESSERA_ACLNN(InplaceDiv)>(view(y), each_row(sum));
  }
  /// y = x - maximum - log(sum), subtracted in this order: both differences are exact where logits are huge.
  void log_softmax_finish(in3 x, of_rows maximum, of_rows sum, out3 y) {
    if (y.empty()) return;
    const auto logarithms = scratch(sum.size());
    log({sum.data, {{sum.size()}}}, {logarithms.data, {{sum.size()}}});
    run<TESSERA_ACLNN(Sub)>(view(x), each_row(maximum), number(1.0f), view(y));
    run<TESSERA_ACLNN(InplaceSub)>(view(y), each_row({logarithms.data, sum.extents}), number(1.0f));
  }
  /// Sum of y * dy.
  void row_dot(in3 y, in3 dy, rows dot) {
    const auto products = scratch(y.size());
    mul({y.data, {{y.size()}}}, {dy.data, {{y.size()}}}, {products.data, {{y.size()}}});
    row_sum({products.data, y.extents}, dot);
  }
  void row_sum(in3 x, rows sum) {
    if (sum.empty()) return;
    if (x.empty()) return fill_with(sum.data, sum.size(), 0);
    run<TESSERA_ACLNN(ReduceSum)>(view(x), integers({1}), false, ACL_FLOAT, view(sum));
  }
  /// dx = y * (dy - dot).
  void softmax_backward_finish(in3 y, in3 dy, of_rows dot, out3 dx) {
    if (dx.empty()) return;
    run<TESSERA_ACLNN(Sub)>(view(dy), each_row(dot), number(1.0f), view(dx));
    run<TESSERA_ACLNN(InplaceMul)>(view(dx), view(y));
  }
  /// dx = dy - exp(y) * sum.
  void log_softmax_backward_finish(in3 y, in3 dy, of_rows sum, out3 dx) {
    if (dx.empty()) return;
    exp({y.data, {{y.size()}}}, {dx.data, {{y.size()}}});
    run<TESSERA_ACLNN(InplaceMul)>(view(dx), each_row(sum));
    run<TESSERA_ACLNN(Sub)>(view(dy), view(dx), number(1.0f), view(dx));
  }

 private:
  static tensor_handle each_row(of_rows numbers) {
    return view(numbers.data, {numbers.extents[0], 1, numbers.extents[1]});
  }
  void exp_of_difference(in3 x, of_rows maximum, out3 y) {
    run<TESSERA_ACLNN(Sub)>(view(x), each_row(maximum), number(1.0f), view(y));
    run<TESSERA_ACLNN(InplaceExp)>(view(y));
  }
};

}  // namespace tessera::detail::ascend_kernels
