#pragma once

#include <tessera/backend/eigen/optimizer.hpp>

namespace tessera::detail {

/// Updates of parameters, as members of `eigen`.
class optimizer_members {
 public:
  /// Parameter and momentum buffer (empty: no momentum) after one step; see `sgd_step`.
  template <class T>
  void sgd_update(block<T, 1> parameter, operand<T, 1> gradient, block<T, 1> momentum_buffer, sgd_step const& step) {
    eigen_kernels::sgd_update<T>(parameter, gradient, momentum_buffer, step);
  }
  /// Parameter and both moments after one step; see `adam_step`. The moments are 0 before the first.
  template <class T>
  void adam_update(block<T, 1> parameter, operand<T, 1> gradient, block<T, 1> first_moment, block<T, 1> second_moment,
                   adam_step const& step) {
    eigen_kernels::adam_update<T>(parameter, gradient, first_moment, second_moment, step);
  }
  /// The sum of the squares of all elements, in double.
  template <class T>
  double square_sum(block<T const, 1> x) {
    return eigen_kernels::square_sum<T>(x);
  }
};

}  // namespace tessera::detail
