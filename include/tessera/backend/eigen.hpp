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
#include <tessera/backend/eigen/memory_members.hpp>
#include <tessera/backend/eigen/normalization_members.hpp>
#include <tessera/backend/eigen/optimizer_members.hpp>
#include <tessera/backend/eigen/pool2d.hpp>
#include <tessera/backend/eigen/precompiled.hpp>
#include <tessera/backend/eigen/softmax.hpp>

namespace tessera {

/// Kernels on host memory: Eigen's matrix product and vector code, float and double, on as many threads as they are
/// told to use (one at first; more only where the program is compiled with OpenMP).
///
/// Work below `detail::parallel_grain` elements for each of two threads stays on one. What is computed element by
/// element, row by row or image by image is the same to the last bit whatever the number of threads: flat kernels,
/// broadcasts, activations, softmax, cross-entropy, convolutions and their input gradients, poolings, layer and RMS
/// norm, `normalize` and `backward_input` of batch and group norm, permutations, maxima, embeddings and their
/// gradients, dropout, attention, updates of parameters. Sums over rows, images or a whole block (weight gradients,
/// statistics of batch norm, gradients of gamma and beta, biases, `sum_broadcast` over the outermost dimension,
/// `square_sum`) are added thread by thread in a fixed order, and the parts of a matrix product are blocked by their
/// extents: these are the same from run to run with the same number of threads, and differ in the last bits between
/// numbers. `first_maximum`, `max_backward`, the checks of indices and labels and what is computed once a channel stay
/// on one thread.
///
/// Blocks may be empty. Outputs are overwritten unless said otherwise. Flat kernels and batch norm work in place; other
/// outputs must not overlap inputs. The element type of a call is that of its outputs (where there are only inputs, of
/// the read-only input), so mutable blocks may be passed as operands. The object holds scratch memory: one a thread.
class eigen : public detail::memory_members,
              public detail::elementwise_members<eigen>,
              public detail::optimizer_members<eigen>,
              public detail::array_members<eigen>,
              public detail::attention_members<eigen>,
              public detail::normalization_members<eigen>,
              public detail::embedding_members<eigen> {
 public:
  using memory = host_memory;
  static constexpr storage_order order = storage_order::channels_last;
  /// The element type of statistics.
  using statistic = double;
  template <class T>
  static constexpr bool holds = std::is_same_v<T, float> || std::is_same_v<T, double>;
  template <class Format>
  static constexpr bool computes = std::is_same_v<Format, float> || std::is_same_v<Format, double>;

  eigen() = default;
  /// Throws `error` for less than 1 thread. `grain` is how many elements of plain arithmetic a thread is worth.
  explicit eigen(int threads, index_t grain = detail::parallel_grain) : scratch_(threads, grain) {}
  eigen(eigen const&) = delete;
  eigen& operator=(eigen const&) = delete;
  eigen(eigen&&) = default;
  eigen& operator=(eigen&&) = default;

  int threads() const { return scratch_.threads(); }
  /// Throws `error` for less than 1.
  void use_threads(int threads) { scratch_.use_threads(threads); }

  // Matrix products.

  /// out = op(a) * op(b) [m, n], or out += with `accumulate`; op transposes where the flag says so.
  template <class T>
  void matmul(operand<T, 2> a, bool transpose_a, operand<T, 2> b, bool transpose_b, block<T, 2> out,
              bool accumulate = false) {
    detail::eigen_kernels::matmul<T>(a, transpose_a, b, transpose_b, out, accumulate, scratch_);
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

  // Softmax over `extent` of blocks [outer, extent, inner]; row numbers are [outer, inner]. Whole rows:

  template <class T>
  void softmax_forward(operand<T, 3> x, block<T, 3> y) {
    by_outer(x, 8, [&](auto part, auto& own) { detail::eigen_kernels::softmax_forward<T>(part(x), part(y), own); });
  }
  template <class T>
  void softmax_backward(operand<T, 3> y, operand<T, 3> dy, block<T, 3> dx) {
    by_outer(y, 2, [&](auto part, auto& own) {
      detail::eigen_kernels::softmax_backward<T>(part(y), part(dy), part(dx), own);
    });
  }
  template <class T>
  void log_softmax_forward(operand<T, 3> x, block<T, 3> y) {
    by_outer(x, 8, [&](auto part, auto& own) { detail::eigen_kernels::log_softmax_forward<T>(part(x), part(y), own); });
  }
  template <class T>
  void log_softmax_backward(operand<T, 3> y, operand<T, 3> dy, block<T, 3> dx) {
    by_outer(y, 8, [&](auto part, auto& own) {
      detail::eigen_kernels::log_softmax_backward<T>(part(y), part(dy), part(dx), own);
    });
  }

  // The pieces, for rows that are split over ranks: reduce the maximum, then the sum, then finish.

  /// Largest of each row: NaN if one is NaN, minus infinity if the row is empty.
  template <class T>
  void row_max(operand<T, 3> x, block<T, 2> maximum) {
    by_outer(x, 1, [&](auto part, auto&) { detail::eigen_kernels::row_max<T>(part(x), part(maximum)); });
  }
  /// The same of a matrix [rows, extent].
  template <class T>
  void row_max(operand<T, 2> x, block<T, 1> maximum) {
    row_max<T>({x.data, {x.extents[0], x.extents[1], 1}}, block<T, 2>{maximum.data, {x.extents[0], 1}});
  }
  /// Sum of exp(x - maximum).
  template <class T>
  void row_sum_exp(operand<T, 3> x, operand<T, 2> maximum, block<T, 2> sum) {
    by_outer(x, 8, [&](auto part, auto&) { detail::eigen_kernels::row_sum_exp<T>(part(x), part(maximum), part(sum)); });
  }
  template <class T>
  void softmax_finish(operand<T, 3> x, operand<T, 2> maximum, operand<T, 2> sum, block<T, 3> y) {
    by_outer(x, 8, [&](auto part, auto&) {
      detail::eigen_kernels::softmax_finish<T>(part(x), part(maximum), part(sum), part(y));
    });
  }
  template <class T>
  void log_softmax_finish(operand<T, 3> x, operand<T, 2> maximum, operand<T, 2> sum, block<T, 3> y) {
    by_outer(x, 1, [&](auto part, auto&) {
      detail::eigen_kernels::log_softmax_finish<T>(part(x), part(maximum), part(sum), part(y));
    });
  }
  /// Sum of y * dy, to be reduced for `softmax_backward_finish`.
  template <class T>
  void row_dot(operand<T, 3> y, operand<T, 3> dy, block<T, 2> dot) {
    by_outer(y, 1, [&](auto part, auto&) { detail::eigen_kernels::row_dot<T>(part(y), part(dy), part(dot)); });
  }
  /// Sum of x; of dy, to be reduced for `log_softmax_backward_finish`.
  template <class T>
  void row_sum(operand<T, 3> x, block<T, 2> sum) {
    by_outer(x, 1, [&](auto part, auto&) { detail::eigen_kernels::row_sum<T>(part(x), part(sum)); });
  }
  template <class T>
  void softmax_backward_finish(operand<T, 3> y, operand<T, 3> dy, operand<T, 2> dot, block<T, 3> dx) {
    by_outer(y, 2, [&](auto part, auto&) {
      detail::eigen_kernels::softmax_backward_finish<T>(part(y), part(dy), part(dot), part(dx));
    });
  }
  template <class T>
  void log_softmax_backward_finish(operand<T, 3> y, operand<T, 3> dy, operand<T, 2> sum, block<T, 3> dx) {
    by_outer(y, 8, [&](auto part, auto&) {
      detail::eigen_kernels::log_softmax_backward_finish<T>(part(y), part(dy), part(sum), part(dx));
    });
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
    detail::eigen_kernels::cross_entropy_sums<T>(logits, labels, maximum, part, sums, scratch_);
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
    detail::eigen_kernels::cross_entropy_gradient<T>(logits, labels, maximum, sums, part, scale, row_scale, dlogits,
                                                     scratch_);
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
    by_outer(x, 4, [&](auto of_part, auto&) {
      detail::eigen_kernels::max_pool2d_forward<T>(of_part(x), of_part(y), of_part(argmax), geometry);
    });
  }
  template <class T>
  void max_pool2d_backward(operand<T, 4> dy, block<std::int32_t const, 4> argmax, block<T, 4> dx,
                           pool2d_geometry const& geometry) {
    by_outer(dx, 4, [&](auto of_part, auto&) {
      detail::eigen_kernels::max_pool2d_backward<T>(of_part(dy), of_part(argmax), of_part(dx), geometry);
    });
  }
  template <class T>
  void avg_pool2d_forward(operand<T, 4> x, block<T, 4> y, pool2d_geometry const& geometry) {
    by_outer(x, 2, [&](auto of_part, auto& own) {
      detail::eigen_kernels::avg_pool2d_forward<T>(of_part(x), of_part(y), geometry, own);
    });
  }
  template <class T>
  void avg_pool2d_backward(operand<T, 4> dy, block<T, 4> dx, pool2d_geometry const& geometry) {
    by_outer(dx, 2, [&](auto of_part, auto& own) {
      detail::eigen_kernels::avg_pool2d_backward<T>(of_part(dy), of_part(dx), geometry, own);
    });
  }
  /// y [N, C, 1, 1] = sum over height and width / `count`, the number of pixels of the whole image.
  template <class T>
  void global_avg_pool_forward(operand<T, 4> x, block<T, 4> y, index_t count) {
    detail::eigen_kernels::global_avg_pool_forward<T>(x, y, count, scratch_);
  }
  template <class T>
  void global_avg_pool_backward(operand<T, 4> dy, block<T, 4> dx, index_t count) {
    by_outer(dx, 1, [&](auto of_part, auto&) {
      detail::eigen_kernels::global_avg_pool_backward<T>(of_part(dy), of_part(dx), count);
    });
  }
  /// y = what the block adds to the means of windows over whole images (`adaptive_window`).
  template <class T>
  void adaptive_avg_pool_forward(operand<T, 4> x, block<T, 4> y, image_part const& part) {
    by_outer(x, 1, [&](auto of_part, auto& own) {
      detail::eigen_kernels::adaptive_avg_pool_forward<T>(of_part(x), of_part(y), part, own);
    });
  }
  template <class T>
  void adaptive_avg_pool_backward(operand<T, 4> dy, block<T, 4> dx, image_part const& part) {
    by_outer(dx, 1, [&](auto of_part, auto& own) {
      detail::eigen_kernels::adaptive_avg_pool_backward<T>(of_part(dy), of_part(dx), part, own);
    });
  }

  // Layout.

  /// [N, C, H, W] to [N, C * H * W], channel-major.
  template <class T>
  void flatten(operand<T, 4> x, block<T, 2> y) {
    by_outer(x, 2, [&](auto of_part, auto&) { detail::eigen_kernels::flatten<T>(of_part(x), of_part(y)); });
  }
  template <class T>
  void unflatten(operand<T, 2> y, block<T, 4> x) {
    by_outer(x, 2, [&](auto of_part, auto&) { detail::eigen_kernels::unflatten<T>(of_part(y), of_part(x)); });
  }

 private:
  /// Calls `with(part, workspace)` on each thread, where `part(block)` are the block's numbers of the outermost
  /// dimension that belong to the thread; `whole` says how many there are, its elements cost `cost` each.
  template <class T, int Rank, class With>
  void by_outer(block<T, Rank> whole, index_t cost, With with) {
    const index_t count = whole.extents[0];
    const index_t each = count == 0 ? 0 : whole.size() / count;
    scratch_.split(count, cost * each, [&](index_t begin, index_t end, auto& own) {
      with([=](auto one) { return detail::eigen_kernels::outer_part(one, begin, end); }, own);
    });
  }

  friend class detail::elementwise_members<eigen>;
  friend class detail::optimizer_members<eigen>;
  friend class detail::array_members<eigen>;
  friend class detail::attention_members<eigen>;
  friend class detail::normalization_members<eigen>;
  friend class detail::embedding_members<eigen>;
  detail::eigen_kernels::workspace scratch_;
};

}  // namespace tessera
