#pragma once

#include <tessera/backend/eigen/optimizer.hpp>

#include <numeric>

namespace tessera::detail {

/// Updates of parameters, as members of `eigen`.
template <class Self>
class optimizer_members {
 public:
  /// Parameter and momentum buffer (empty: no momentum) after one step; see `sgd_step`.
  template <class T>
  void sgd_update(block<T, 1> parameter, operand<T, 1> gradient, block<T, 1> momentum_buffer, sgd_step const& step) {
    split<T>(parameter, [&](auto part, auto to) {
      eigen_kernels::sgd_update<T>(to, part(gradient), part(momentum_buffer), step);
    });
  }
  /// Parameter and both moments after one step; see `adam_step`. The moments are 0 before the first.
  template <class T>
  void adam_update(block<T, 1> parameter, operand<T, 1> gradient, block<T, 1> first_moment, block<T, 1> second_moment,
                   adam_step const& step) {
    split<T>(parameter, [&](auto part, auto to) {
      eigen_kernels::adam_update<T>(to, part(gradient), part(first_moment), part(second_moment), step);
    });
  }
  /// The sum of the squares of all elements, in double; the threads' sums are added in order.
  template <class T>
  double square_sum(block<T const, 1> x) {
    const int parts = scratch().parts(x.size(), 1);
    double* of_parts = scratch().template get<double>(2, parts);
    scratch().run(parts, [&](int part, eigen_kernels::workspace&) {
      const interval some = cut({0, x.size()}, parts, part);
      of_parts[part] = eigen_kernels::square_sum<T>(eigen_kernels::outer_part(x, some.begin, some.end()));
    });
    return std::accumulate(of_parts + 1, of_parts + parts, of_parts[0]);
  }

 private:
  /// Calls `with(part, to)` on each thread: `part(block)` is the block's part that belongs to `to`, a part of the
  /// parameter.
  template <class T, class With>
  void split(block<T, 1> parameter, With with) {
    scratch().template split_packets<T>(parameter.size(), 2, [&](index_t begin, index_t end) {
      with([=](auto whole) { return whole.empty() ? whole : eigen_kernels::outer_part(whole, begin, end); },
           eigen_kernels::outer_part(parameter, begin, end));
    });
  }

  eigen_kernels::workspace& scratch() { return static_cast<Self*>(this)->scratch_; }
};

}  // namespace tessera::detail
