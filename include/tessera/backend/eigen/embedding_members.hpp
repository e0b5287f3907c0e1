#pragma once

#include <tessera/backend/eigen/dropout.hpp>
#include <tessera/backend/eigen/embedding.hpp>
#include <tessera/backend/eigen/precompiled.hpp>

namespace tessera::detail {

/// Embeddings and dropout of `eigen`.
template <class Self>
class embedding_members {
 public:
  /// First place whose index is not one of 0 to count - 1; -1 where all are right.
  index_t first_bad_index(block<std::int64_t const, 1> indices, index_t count) {
    return eigen_kernels::first_bad_index(indices, count);
  }
  /// y [places, features]: the row of `weight` that each index names. `weight` has the rows from `first` on; an index
  /// of another row gives zeros.
  template <class T>
  void embedding_forward(block<std::int64_t const, 1> indices, operand<T, 2> weight, index_t first, block<T, 2> y) {
    scratch().split(indices.size(), y.extents[1], [&](index_t begin, index_t end, eigen_kernels::workspace&) {
      eigen_kernels::embedding_forward<T>(eigen_kernels::outer_part(indices, begin, end), weight, first,
                                          eigen_kernels::outer_part(y, begin, end));
    });
  }
  /// dweight: for each row from `first` on the sum of dy over the places that name it, in their order; 0 for `padding`.
  template <class T>
  void embedding_backward(block<std::int64_t const, 1> indices, operand<T, 2> dy, index_t first, std::int64_t padding,
                          block<T, 2> dweight) {
    eigen_kernels::embedding_backward<T>(indices, dy, first, padding, dweight, scratch());
  }
  /// y = x / keep with probability `keep`, else 0, for the elements from `first` on of a larger tensor: which ones
  /// depends on `draw` and the element's number alone. In place where the blocks are the same.
  template <class T>
  void dropout(operand<T, 1> x, philox const& draw, index_t first, double keep, block<T, 1> y) {
    scratch().template split_packets<T>(y.size(), 4, [&](index_t begin, index_t end) {
      eigen_kernels::dropout<T>(eigen_kernels::outer_part(x, begin, end), draw, first + begin, keep,
                                eigen_kernels::outer_part(y, begin, end));
    });
  }

 private:
  eigen_kernels::workspace& scratch() { return static_cast<Self*>(this)->scratch_; }
};

}  // namespace tessera::detail
