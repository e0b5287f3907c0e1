#pragma once

#include <tessera/backend/eigen/adaptive_pool.hpp>
#include <tessera/backend/eigen/array_members.hpp>
#include <tessera/backend/eigen/attention_members.hpp>
#include <tessera/backend/eigen/batch_norm.hpp>
#include <tessera/backend/eigen/broadcast.hpp>
#include <tessera/backend/eigen/columns.hpp>
#include <tessera/backend/eigen/conv2d.hpp>
#include <tessera/backend/eigen/cross_entropy.hpp>
#include <tessera/backend/eigen/elementwise.hpp>
#include <tessera/backend/eigen/elementwise_members.hpp>
#include <tessera/backend/eigen/embedding_members.hpp>
#include <tessera/backend/eigen/layout.hpp>
#include <tessera/backend/eigen/matmul.hpp>
#include <tessera/backend/eigen/normalization_members.hpp>
#include <tessera/backend/eigen/optimizer_members.hpp>
#include <tessera/backend/eigen/pool2d.hpp>
#include <tessera/backend/eigen/precompiled.hpp>
#include <tessera/backend/eigen/softmax.hpp>

namespace tessera {

/// Kernels on host memory, one thread: Eigen's matrix product and vector code, float and double.
///
/// Blocks may be empty. Outputs are overwritten unless said otherwise. Flat kernels and batch norm work in place; other
/// outputs must not overlap inputs. The element type of a call is that of its outputs (where there are only inputs, of
/// the read-only input), so mutable blocks may be passed as operands. The object holds scratch memory: one a thread.
class eigen : public detail::elementwise_members,
              public detail::optimizer_members,
              public detail::array_members<eigen>,
              public detail::attention_members<eigen>,
              public detail::normalization_members<eigen>,
              public detail::embedding_members<eigen> {
 public:
  using memory = host_memory;
  static constexpr storage_order order = storage_order::channels_last;

  eigen() = default;
  eigen(eigen const&) = delete;
  eigen& operator=(eigen const&) = delete;
  eigen(eigen&&) = default;
  eigen& operator=(eigen&&) = default;

  // Matrix products.

  /// out = op(a) * op(b) [m, n], or out += with `accumulate`; op transposes where the flag says so.
  template <class T>
  void matmul(operand<T, 2> a, bool transpose_a, operand<T, 2> b, bool transpose_b, block<T, 2> out,
              bool accumulate = false) {
    detail::eigen_kernels::matmul<T>(a, transpose_a, b, transpose_b, out, accumulate);
  }
  /// y [m, n] += bias [n] in every row.
  template <class T>
  void add_bias(block<T, 2> y, operand<T, 1> bias) {
    detail::eigen_kernels::add_bias<T>(y, bias, scratch_);
  }
  /// out [n] = sum of the rows of dy [m, n].
  template <class T>
  void sum_rows(operand<T, 2> dy, block<T, 1> out) {
    detail::eigen_kernels::sum_rows<T>(dy, out, scratch_);
  }

  // Convolution: x [N, C, H, W], w [O, C / groups, kh, kw], y [N, O, H', W'].

  template <class T>
  void conv2d_forward(operand<T, 4> x, operand<T, 4> w, block<T, 4> y, conv2d_geometry const& geometry) {
    detail::eigen_kernels::conv2d_forward<T>(x, w, y, geometry, scratch_);
  }
  template <class T>
  void conv2d_backward_input(operand<T, 4> w, operand<T, 4> dy, block<T, 4> dx, conv2d_geometry const& geometry) {
    detail::eigen_kernels::conv2d_backward_input<T>(w, dy, dx, geometry, scratch_);
  }
  template <class T>
  void conv2d_backward_weight(operand<T, 4> x, operand<T, 4> dy, block<T, 4> dw, conv2d_geometry const& geometry) {
    detail::eigen_kernels::conv2d_backward_weight<T>(x, dy, dw, geometry, scratch_);
  }

  // Flat kernels, in place where blocks are the same.

  /// y = max(x, 0); NaN stays NaN.
  template <class T>
  void relu_forward(operand<T, 1> x, block<T, 1> y) {
    detail::eigen_kernels::relu_forward<T>(x, y);
  }
  /// dx = dy where y > 0, else 0 (also at 0).
  template <class T>
  void relu_backward(operand<T, 1> y, operand<T, 1> dy, block<T, 1> dx) {
    detail::eigen_kernels::relu_backward<T>(y, dy, dx);
  }
  template <class T>
  void add(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
    detail::eigen_kernels::add<T>(a, b, y);
  }
  template <class T>
  void sub(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
    detail::eigen_kernels::sub<T>(a, b, y);
  }
  template <class T>
  void mul(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
    detail::eigen_kernels::mul<T>(a, b, y);
  }
  /// y = a * factor.
  template <class T>
  void scale(operand<T, 1> a, std::type_identity_t<T> factor, block<T, 1> y) {
    detail::eigen_kernels::scale<T>(a, factor, y);
  }
  /// y += factor * x.
  template <class T>
  void axpy(std::type_identity_t<T> factor, operand<T, 1> x, block<T, 1> y) {
    detail::eigen_kernels::axpy<T>(factor, x, y);
  }
  template <class T>
  void exp(operand<T, 1> x, block<T, 1> y) {
    detail::eigen_kernels::exp<T>(x, y);
  }
  template <class T>
  void log(operand<T, 1> x, block<T, 1> y) {
    detail::eigen_kernels::log<T>(x, y);
  }

  // Blocks of six dimensions in memory order; those of extent 1 are repeated to the extents of the result.

  /// y = a + b. In place only where the operand is not repeated.
  template <class T>
  void add_broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y) {
    detail::eigen_kernels::broadcast<T>(a, b, y,
                                        [](auto const& p, auto const& q) { return Eigen::internal::padd(p, q); });
  }
  /// y = a * b. In place only where the operand is not repeated.
  template <class T>
  void mul_broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y) {
    detail::eigen_kernels::broadcast<T>(a, b, y,
                                        [](auto const& p, auto const& q) { return Eigen::internal::pmul(p, q); });
  }
  /// y = sum of x over the dimensions in which y has the extent 1.
  template <class T>
  void sum_broadcast(operand<T, 6> x, block<T, 6> y) {
    detail::eigen_kernels::sum_broadcast<T>(x, y, scratch_);
  }

  // Softmax over `extent` of blocks [outer, extent, inner]; row numbers are [outer, inner]. Whole rows:

  template <class T>
  void softmax_forward(operand<T, 3> x, block<T, 3> y) {
    detail::eigen_kernels::softmax_forward<T>(x, y, scratch_);
  }
  template <class T>
  void softmax_backward(operand<T, 3> y, operand<T, 3> dy, block<T, 3> dx) {
    detail::eigen_kernels::softmax_backward<T>(y, dy, dx, scratch_);
  }
  template <class T>
  void log_softmax_forward(operand<T, 3> x, block<T, 3> y) {
    detail::eigen_kernels::log_softmax_forward<T>(x, y, scratch_);
  }
  template <class T>
  void log_softmax_backward(operand<T, 3> y, operand<T, 3> dy, block<T, 3> dx) {
    detail::eigen_kernels::log_softmax_backward<T>(y, dy, dx, scratch_);
  }

  // The pieces, for rows that are split over ranks: reduce the maximum, then the sum, then finish.

  /// Largest of each row: NaN if one is NaN, minus infinity if the row is empty.
  template <class T>
  void row_max(operand<T, 3> x, block<T, 2> maximum) {
    detail::eigen_kernels::row_max<T>(x, maximum);
  }
  /// The same of a matrix [rows, extent].
  template <class T>
  void row_max(operand<T, 2> x, block<T, 1> maximum) {
    detail::eigen_kernels::row_max<T>({x.data, {x.extents[0], x.extents[1], 1}}, {maximum.data, {x.extents[0], 1}});
  }
  /// Sum of exp(x - maximum).
  template <class T>
  void row_sum_exp(operand<T, 3> x, operand<T, 2> maximum, block<T, 2> sum) {
    detail::eigen_kernels::row_sum_exp<T>(x, maximum, sum);
  }
  template <class T>
  void softmax_finish(operand<T, 3> x, operand<T, 2> maximum, operand<T, 2> sum, block<T, 3> y) {
    detail::eigen_kernels::softmax_finish<T>(x, maximum, sum, y);
  }
  template <class T>
  void log_softmax_finish(operand<T, 3> x, operand<T, 2> maximum, operand<T, 2> sum, block<T, 3> y) {
    detail::eigen_kernels::log_softmax_finish<T>(x, maximum, sum, y);
  }
  /// Sum of y * dy, to be reduced for `softmax_backward_finish`.
  template <class T>
  void row_dot(operand<T, 3> y, operand<T, 3> dy, block<T, 2> dot) {
    detail::eigen_kernels::row_dot<T>(y, dy, dot);
  }
  /// Sum of x; of dy, to be reduced for `log_softmax_backward_finish`.
  template <class T>
  void row_sum(operand<T, 3> x, block<T, 2> sum) {
    detail::eigen_kernels::row_sum<T>(x, sum);
  }
  template <class T>
  void softmax_backward_finish(operand<T, 3> y, operand<T, 3> dy, operand<T, 2> dot, block<T, 3> dx) {
    detail::eigen_kernels::softmax_backward_finish<T>(y, dy, dot, dx);
  }
  template <class T>
  void log_softmax_backward_finish(operand<T, 3> y, operand<T, 3> dy, operand<T, 2> sum, block<T, 3> dx) {
    detail::eigen_kernels::log_softmax_backward_finish<T>(y, dy, sum, dx);
  }

  // Cross-entropy of logits [rows, local classes]: `row_max` reduced by maximum, the sums reduced by sum, then loss and
  // gradient without further messages.

  /// First row whose label is neither one of `classes` classes nor `ignore_index`; -1 where all are right.
  index_t first_bad_label(block<std::int64_t const, 1> labels, index_t classes, std::int64_t ignore_index) {
    return detail::eigen_kernels::first_bad_label(labels, classes, ignore_index);
  }
  /// This rank's part of `sums` [part.sums(), rows].
  template <class T>
  void cross_entropy_sums(operand<T, 2> logits, block<std::int64_t const, 1> labels, operand<T, 1> maximum,
                          cross_entropy_part<std::type_identity_t<T>> const& part, block<T, 2> sums) {
    detail::eigen_kernels::cross_entropy_sums<T>(logits, labels, maximum, part, sums);
  }
  /// Loss and weight summed over rows; the loss of each row too where `row_loss` [rows] is not empty.
  template <class T>
  cross_entropy_totals cross_entropy_loss(operand<T, 2> sums, block<std::int64_t const, 1> labels,
                                          cross_entropy_part<std::type_identity_t<T>> const& part,
                                          block<T, 1> row_loss) {
    return detail::eigen_kernels::cross_entropy_loss<T>(sums, labels, part, row_loss);
  }
  /// dlogits = scale * row_scale[row] (1 where empty) * gradient of the row's loss; ignored rows get 0 for any scale.
  template <class T>
  void cross_entropy_gradient(operand<T, 2> logits, block<std::int64_t const, 1> labels, operand<T, 1> maximum,
                              operand<T, 2> sums, cross_entropy_part<std::type_identity_t<T>> const& part, double scale,
                              operand<T, 1> row_scale, block<T, 2> dlogits) {
    detail::eigen_kernels::cross_entropy_gradient<T>(logits, labels, maximum, sums, part, scale, row_scale, dlogits);
  }
  /// As above with targets [rows, local classes] that are probabilities; `sums` is [part.probability_sums(), rows].
  template <class T>
  void cross_entropy_probability_sums(operand<T, 2> logits, operand<T, 2> targets, operand<T, 1> maximum,
                                      cross_entropy_part<std::type_identity_t<T>> const& part, block<T, 2> sums) {
    detail::eigen_kernels::cross_entropy_probability_sums<T>(logits, targets, maximum, part, sums, scratch_);
  }
  template <class T>
  cross_entropy_totals cross_entropy_probability_loss(operand<T, 2> sums, block<T, 1> row_loss) {
    return detail::eigen_kernels::cross_entropy_probability_loss<T>(sums, row_loss);
  }
  template <class T>
  void cross_entropy_probability_gradient(operand<T, 2> logits, operand<T, 2> targets, operand<T, 1> maximum,
                                          operand<T, 2> sums, cross_entropy_part<std::type_identity_t<T>> const& part,
                                          double scale, operand<T, 1> row_scale, block<T, 2> dlogits) {
    detail::eigen_kernels::cross_entropy_probability_gradient<T>(logits, targets, maximum, sums, part, scale, row_scale,
                                                                 dlogits, scratch_);
  }

  // Batch norm on matrices [M, C] (`as_matrix` of the block). Statistics are double. Empty gamma means 1, empty beta 0.

  /// moments [C, 3]: count, mean, sum of squared deviations of each channel.
  template <class T>
  void batch_norm_moments(block<T const, 2> x, block<double, 2> moments) {
    detail::eigen_kernels::batch_norm_moments<T>(x, moments, scratch_);
  }
  /// Mean and 1 / sqrt(biased variance + epsilon) [C].
  void batch_norm_finish(block<double const, 2> moments, double epsilon, block<double, 1> mean,
                         block<double, 1> inv_std) {
    detail::eigen_kernels::batch_norm_finish(moments, epsilon, mean, inv_std);
  }
  /// Running statistics r = (1 - momentum) * r + momentum * batch, the variance unbiased.
  template <class T>
  void batch_norm_update_running(block<double const, 2> moments, double momentum, block<T, 1> mean,
                                 block<T, 1> variance) {
    detail::eigen_kernels::batch_norm_update_running<T>(moments, momentum, mean, variance);
  }
  /// What `batch_norm_finish` gives, from running statistics.
  template <class T>
  void batch_norm_from_running(block<T const, 1> running_mean, block<T const, 1> running_variance, double epsilon,
                               block<double, 1> mean, block<double, 1> inv_std) {
    detail::eigen_kernels::batch_norm_from_running<T>(running_mean, running_variance, epsilon, mean, inv_std);
  }
  /// y = (x - mean) * inv_std * gamma + beta.
  template <class T>
  void batch_norm_normalize(operand<T, 2> x, block<double const, 1> mean, block<double const, 1> inv_std,
                            operand<T, 1> gamma, operand<T, 1> beta, block<T, 2> y) {
    detail::eigen_kernels::batch_norm_normalize<T>(x, mean, inv_std, gamma, beta, y, scratch_);
  }
  /// sums [2 * C]: sum of dy (gradient of beta), then sum of dy * xhat (gradient of gamma).
  template <class T>
  void batch_norm_backward_sums(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                block<double const, 1> inv_std, block<T, 1> sums) {
    detail::eigen_kernels::batch_norm_backward_sums<T>(x, dy, mean, inv_std, sums, scratch_);
  }
  /// dx from `sums` and `count` of the whole batch.
  template <class T>
  void batch_norm_backward_input(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                 block<double const, 1> inv_std, operand<T, 1> gamma, operand<T, 1> sums, double count,
                                 block<T, 2> dx) {
    detail::eigen_kernels::batch_norm_backward_input<T>(x, dy, mean, inv_std, gamma, sums, count, dx, scratch_);
  }
  /// dx = dy * gamma * inv_std: the statistics are constants.
  template <class T>
  void batch_norm_backward_input_evaluation(operand<T, 2> dy, block<double const, 1> inv_std, operand<T, 1> gamma,
                                            block<T, 2> dx) {
    detail::eigen_kernels::batch_norm_backward_input_evaluation<T>(dy, inv_std, gamma, dx, scratch_);
  }

  // Pooling: x [N, C, H, W], y [N, C, H', W'].

  /// y and, in `argmax`, the place h * W + w of the largest value of each window: padding is minus infinity, the first
  /// in row-major order wins, NaN is larger than anything. A window of padding only gives minus infinity and -1.
  template <class T>
  void max_pool2d_forward(operand<T, 4> x, block<T, 4> y, block<std::int32_t, 4> argmax,
                          pool2d_geometry const& geometry) {
    detail::eigen_kernels::max_pool2d_forward<T>(x, y, argmax, geometry);
  }
  template <class T>
  void max_pool2d_backward(operand<T, 4> dy, block<std::int32_t const, 4> argmax, block<T, 4> dx,
                           pool2d_geometry const& geometry) {
    detail::eigen_kernels::max_pool2d_backward<T>(dy, argmax, dx, geometry);
  }
  template <class T>
  void avg_pool2d_forward(operand<T, 4> x, block<T, 4> y, pool2d_geometry const& geometry) {
    detail::eigen_kernels::avg_pool2d_forward<T>(x, y, geometry);
  }
  template <class T>
  void avg_pool2d_backward(operand<T, 4> dy, block<T, 4> dx, pool2d_geometry const& geometry) {
    detail::eigen_kernels::avg_pool2d_backward<T>(dy, dx, geometry);
  }
  /// y [N, C, 1, 1] = sum over height and width / `count`, the number of pixels of the whole image.
  template <class T>
  void global_avg_pool_forward(operand<T, 4> x, block<T, 4> y, index_t count) {
    detail::eigen_kernels::global_avg_pool_forward<T>(x, y, count, scratch_);
  }
  template <class T>
  void global_avg_pool_backward(operand<T, 4> dy, block<T, 4> dx, index_t count) {
    detail::eigen_kernels::global_avg_pool_backward<T>(dy, dx, count);
  }
  /// y = what the block adds to the means of windows over whole images (`adaptive_window`).
  template <class T>
  void adaptive_avg_pool_forward(operand<T, 4> x, block<T, 4> y, image_part const& part) {
    detail::eigen_kernels::adaptive_avg_pool_forward<T>(x, y, part);
  }
  template <class T>
  void adaptive_avg_pool_backward(operand<T, 4> dy, block<T, 4> dx, image_part const& part) {
    detail::eigen_kernels::adaptive_avg_pool_backward<T>(dy, dx, part);
  }

  // Layout.

  /// [N, C, H, W] to [N, C * H * W], channel-major.
  template <class T>
  void flatten(operand<T, 4> x, block<T, 2> y) {
    detail::eigen_kernels::flatten<T>(x, y);
  }
  template <class T>
  void unflatten(operand<T, 2> y, block<T, 4> x) {
    detail::eigen_kernels::unflatten<T>(y, x);
  }

 private:
  friend class detail::array_members<eigen>;
  friend class detail::attention_members<eigen>;
  friend class detail::normalization_members<eigen>;
  friend class detail::embedding_members<eigen>;
  detail::eigen_kernels::workspace scratch_;
};

}  // namespace tessera
