#pragma once

#include <tessera/backend/eigen/group_norm.hpp>
#include <tessera/backend/eigen/moments.hpp>
#include <tessera/backend/eigen/precompiled.hpp>
#include <tessera/backend/eigen/row_norm.hpp>

namespace tessera::detail {

/// The normalisations of `eigen` besides batch norm, and moments, which it shares. Statistics are double. Empty gamma
/// means 1, empty beta 0, empty gradients of these are not wanted. Results may lie in the place of an input.
template <class Self>
class normalization_members {
 public:
  // Moments of values that are split over ranks travel as sums; see `reduce_moments`.

  /// sums [rows, 2]: this rank's part of the mean difference of `count` values from `origin`, and of its square.
  template <class M>
  void moments_to_sums(block<double const, 2> moments, block<double, 1> origin, double count, block<M, 2> sums) {
    eigen_kernels::moments_to_sums<M>(moments, origin, count, sums);
  }
  /// Moments of all values, `origin` becoming their mean; false where M does not hold their variance.
  template <class M>
  bool moments_from_sums(block<M const, 2> sums, block<double, 1> origin, double count, double epsilon,
                         block<double, 2> moments) {
    return eigen_kernels::moments_from_sums<M>(sums, origin, count, epsilon, moments);
  }

  // Layer norm and root-mean-square norm of the rows of [rows, extent]. An empty block of means says the latter.

  /// y and the statistics [rows] of whole rows.
  template <class T>
  void layer_norm_forward(operand<T, 2> x, double epsilon, operand<T, 1> gamma, operand<T, 1> beta,
                          block<double, 1> mean, block<double, 1> inv_std, block<T, 2> y) {
    by_rows(x, 4, [&](auto part) {
      eigen_kernels::layer_norm_forward<T>(part(x), epsilon, gamma, beta, part(mean), part(inv_std), part(y));
    });
  }
  template <class T>
  void rms_norm_forward(operand<T, 2> x, double epsilon, operand<T, 1> gamma, block<double, 1> inv_std, block<T, 2> y) {
    by_rows(x, 4,
            [&](auto part) { eigen_kernels::rms_norm_forward<T>(part(x), epsilon, gamma, part(inv_std), part(y)); });
  }
  /// dx = inv_std * (gamma * dy - xhat * mean of gamma * dy * xhat - mean of gamma * dy) of whole rows, the last term
  /// only with means; dgamma = sum over rows of dy * xhat, dbeta = sum of dy.
  template <class T>
  void row_normalize_backward(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                              block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 2> dx, block<T, 1> dgamma,
                              block<T, 1> dbeta) {
    eigen_kernels::row_normalize_backward<T>(x, dy, mean, inv_std, gamma, dx, dgamma, dbeta, scratch());
  }

  // The pieces, for rows that are split over ranks: reduce the moments or squares, then finish.

  /// moments [rows, 3]: count, mean, sum of squared deviations; `batch_norm_finish` makes statistics of them.
  template <class T>
  void row_moments(block<T const, 2> x, block<double, 2> moments) {
    by_rows(x, 2, [&](auto part) { eigen_kernels::row_moments<T>(part(x), part(moments)); });
  }
  /// squares [rows]: sum of squares.
  template <class T, class M>
  void row_squares(block<T const, 2> x, block<M, 1> squares) {
    by_rows(x, 1, [&](auto part) { eigen_kernels::row_squares(part(x), part(squares)); });
  }
  /// inv_std = 1 / sqrt(squares / count + epsilon); false where M does not hold the squares.
  template <class M>
  bool rms_norm_finish(block<M const, 1> squares, double count, double epsilon, block<double, 1> inv_std) {
    return eigen_kernels::rms_norm_finish<M>(squares, count, epsilon, inv_std);
  }
  /// y = (x - mean) * inv_std * gamma + beta.
  template <class T>
  void row_normalize(operand<T, 2> x, block<double const, 1> mean, block<double const, 1> inv_std, operand<T, 1> gamma,
                     operand<T, 1> beta, block<T, 2> y) {
    by_rows(x, 2, [&](auto part) {
      eigen_kernels::row_normalize<T>(part(x), part(mean), part(inv_std), gamma, beta, part(y));
    });
  }
  /// sums: of gamma * dy * xhat for each row, then with means of gamma * dy; and the gradients of gamma and beta.
  template <class T>
  void row_normalize_backward_sums(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                   block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 1> sums,
                                   block<T, 1> dgamma, block<T, 1> dbeta) {
    eigen_kernels::row_normalize_backward_sums<T>(x, dy, mean, inv_std, gamma, sums, dgamma, dbeta, scratch());
  }
  /// dx from `sums` and `count` of whole rows.
  template <class T>
  void row_normalize_backward_input(operand<T, 2> x, operand<T, 2> dy, block<double const, 1> mean,
                                    block<double const, 1> inv_std, operand<T, 1> gamma, operand<T, 1> sums,
                                    double count, block<T, 2> dx) {
    eigen_kernels::row_normalize_backward_input<T>(x, dy, mean, inv_std, gamma, sums, count, dx, scratch());
  }

  // Group norm of images; statistics are [samples * groups], `groups` those of the local channels.

  /// moments [samples * groups, 3].
  template <class T>
  void group_norm_moments(block<T const, 4> x, index_t groups, block<double, 2> moments) {
    eigen_kernels::group_norm_moments<T>(x, groups, moments, scratch());
  }
  template <class T>
  void group_norm_normalize(operand<T, 4> x, index_t groups, block<double const, 1> mean,
                            block<double const, 1> inv_std, operand<T, 1> gamma, operand<T, 1> beta, block<T, 4> y) {
    eigen_kernels::group_norm_normalize<T>(x, groups, mean, inv_std, gamma, beta, y, scratch());
  }
  /// sums [2 * samples * groups]: of gamma * dy * xhat, then of gamma * dy; and the gradients of gamma and beta.
  template <class T>
  void group_norm_backward_sums(operand<T, 4> x, operand<T, 4> dy, index_t groups, block<double const, 1> mean,
                                block<double const, 1> inv_std, operand<T, 1> gamma, block<T, 1> sums,
                                block<T, 1> dgamma, block<T, 1> dbeta) {
    eigen_kernels::group_norm_backward_sums<T>(x, dy, groups, mean, inv_std, gamma, sums, dgamma, dbeta, scratch());
  }
  /// dx from `sums` and `count` of whole groups.
  template <class T>
  void group_norm_backward_input(operand<T, 4> x, operand<T, 4> dy, index_t groups, block<double const, 1> mean,
                                 block<double const, 1> inv_std, operand<T, 1> gamma, operand<T, 1> sums, double count,
                                 block<T, 4> dx) {
    eigen_kernels::group_norm_backward_input<T>(x, dy, groups, mean, inv_std, gamma, sums, count, dx, scratch());
  }

 private:
  /// Calls `with(part)` on each thread, where `part(block)` are the block's rows of the thread.
  template <class T, class With>
  void by_rows(block<T const, 2> x, index_t cost, With with) {
    scratch().split(x.extents[0], cost * x.extents[1], [&](index_t begin, index_t end, auto&) {
      with([=](auto whole) { return eigen_kernels::outer_part(whole, begin, end); });
    });
  }
  eigen_kernels::workspace& scratch() { return static_cast<Self*>(this)->scratch_; }
};

}  // namespace tessera::detail
