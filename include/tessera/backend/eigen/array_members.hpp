#pragma once

#include <tessera/backend/eigen/batch_matmul.hpp>
#include <tessera/backend/eigen/maximum.hpp>
#include <tessera/backend/eigen/permute.hpp>

namespace tessera::detail {

/// Products of many matrices, maxima and permutations of dimensions, as members of `eigen`.
template <class Self>
class array_members {
 public:
  /// out = op(a) op(b) for each matrix of blocks [outer, inner, rows, columns]; op transposes where the flag says so.
  /// An operand whose outer and inner extents are 1 is used for all of them; an output with such extents gets the sum.
  template <class T>
  void batch_matmul(operand<T, 4> a, bool transpose_a, operand<T, 4> b, bool transpose_b, block<T, 4> out) {
    eigen_kernels::batch_matmul<T>(a, transpose_a, b, transpose_b, out, static_cast<Self*>(this)->scratch_);
  }

  // Blocks of six dimensions in memory order.

  /// y = x with dimension `from[p]` of x as its dimension p.
  template <class T>
  void permute(operand<T, 6> x, std::array<int, 6> const& from, block<T, 6> y) {
    eigen_kernels::permute<T>(x, from, y, static_cast<Self*>(this)->scratch_);
  }
  /// y = the largest of x over the dimensions in which y has the extent 1: NaN where one is, minus infinity where there
  /// is nothing.
  template <class T>
  void max_broadcast(operand<T, 6> x, block<T, 6> y) {
    eigen_kernels::max_broadcast<T>(x, y, static_cast<Self*>(this)->scratch_);
  }
  /// For each maximum in y, which may be over more blocks than x: `at`, the number of the first element of x that
  /// equals it (NaN equals NaN), -1 where there is none; `rank`, minus its place, which is `first` plus the sum of
  /// `weights` times its indices.
  template <class T>
  void first_maximum(block<T const, 6> x, operand<T, 6> y, std::array<index_t, 6> const& weights, index_t first,
                     block<std::int64_t, 6> at, block<std::int64_t, 6> rank) {
    eigen_kernels::first_maximum<T>(x, y, weights, first, at, rank);
  }
  /// dx = dy at the elements numbered `at` where `rank` equals `first_rank`, the largest of all blocks; 0 elsewhere.
  template <class T>
  void max_backward(operand<T, 6> dy, block<std::int64_t const, 6> at, block<std::int64_t const, 6> rank,
                    block<std::int64_t const, 6> first_rank, block<T, 6> dx) {
    eigen_kernels::max_backward<T>(dy, at, rank, first_rank, dx);
  }
};

}  // namespace tessera::detail
