#pragma once

#include <tessera/core/block.hpp>
#include <tessera/core/memory.hpp>

#include <Eigen/Core>

#include <array>
#include <memory>

namespace tessera::detail::eigen_kernels {

template <class T, class Other>
using like = std::conditional_t<std::is_const_v<T>, Other const, Other>;

/// Elements in a row as an Eigen array: explicit vector code at any optimisation level, safe in place.
template <class T>
auto array(T* data, index_t size) {
  return Eigen::Map<like<T, Eigen::Array<std::remove_const_t<T>, Eigen::Dynamic, 1>>>(data, size);
}
template <class T, int Rank>
auto array(block<T, Rank> b) {
  return array(b.data, b.size());
}

/// A row-major matrix.
template <class T>
auto matrix(T* data, index_t rows, index_t columns) {
  return Eigen::Map<like<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>>(
      data, rows, columns);
}
/// The transpose of a row-major matrix of extents `columns` x `rows`, without a transpose expression.
template <class T>
auto transposed(T* data, index_t rows, index_t columns) {
  return Eigen::Map<like<T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>>>(
      data, rows, columns);
}

/// The larger of two arrays, element by element; NaN where either is NaN.
template <class A, class B>
auto larger(Eigen::ArrayBase<A> const& a, Eigen::ArrayBase<B> const& b) {
  using scalar = typename A::Scalar;
  return a.binaryExpr(b.derived(), Eigen::internal::scalar_max_op<scalar, scalar, Eigen::PropagateNaN>());
}

/// Scratch memory that grows to the largest request and is kept: one buffer a slot.
class workspace {
 public:
  template <class T>
  T* get(int slot, index_t count) {
    buffer& b = slots_[static_cast<std::size_t>(slot)];
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (b.bytes < bytes) {
      b.owner = {};
      b.owner = host_memory::allocate(bytes);
      b.bytes = bytes;
    }
    return static_cast<T*>(b.owner.get());
  }

 private:
  struct buffer {
    memory_handle owner;
    std::size_t bytes = 0;
  };
  std::array<buffer, 6> slots_;
};

}  // namespace tessera::detail::eigen_kernels
