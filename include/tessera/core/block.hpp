#pragma once

#include <tessera/core/partition.hpp>
#include <tessera/core/shape.hpp>

#include <type_traits>

namespace tessera {

/// A view of one rank's dense block: a pointer and run-time extents. It owns nothing.
///
/// Kernels take blocks. Extents are in logical order; rank 4 lies in memory as `Order` says.
template <class T, int Rank, storage_order Order = storage_order::channels_last>
struct block {
  using value_type = std::remove_const_t<T>;
  static constexpr int rank = Rank;
  static constexpr storage_order order = Order;

  T* data = nullptr;
  shape<Rank> extents{};

  constexpr index_t size() const { return extents.size(); }
  constexpr index_t extent(int dim) const { return extents[dim]; }
  constexpr bool empty() const { return size() == 0; }
  T* begin() const { return data; }
  T* end() const { return data + size(); }

  /// The element at logical indices of a block in host memory, for tests and small loops (kernels walk `data`).
  template <class... At>
  T& operator()(At... at) const {
    static_assert(sizeof...(At) == Rank, "tessera: give one index for each dimension of the block");
    const std::array<index_t, static_cast<std::size_t>(Rank)> where{static_cast<index_t>(at)...};
    const auto strides = strides_of<Order>(extents);
    index_t offset = 0;
    for (int d = 0; d < Rank; ++d) offset += where[static_cast<std::size_t>(d)] * strides[static_cast<std::size_t>(d)];
    return data[offset];
  }

  /// A mutable block is also a read-only block.
  constexpr operator block<T const, Rank, Order>() const requires(!std::is_const_v<T>) { return {data, extents}; }
};

/// A mutable block as a read-only one, where the type is deduced.
template <class T, int Rank, storage_order Order>
constexpr block<T const, Rank, Order> read_only(block<T, Rank, Order> b) {
  return b;
}

/// The same memory with other extents of the same size. The caller knows that the storage orders agree.
template <int Rank, class T, int From, storage_order Order>
constexpr block<T, Rank, Order> reinterpret_shape(block<T, From, Order> b, shape<Rank> to) {
  return {b.data, to};
}

/// A block as a matrix whose columns are the dimension that lies innermost: channels for images (N*H*W x C).
template <class T, int Rank, storage_order Order>
constexpr block<T, 2> as_matrix(block<T, Rank, Order> b) {
  static_assert(Rank >= 1 && !(Rank == 4 && Order == storage_order::row_major),
                "tessera: only blocks whose last stored dimension is the feature can be seen as a matrix");
  const index_t columns = b.extents[Rank == 4 ? 1 : Rank - 1];
  index_t rows = 1;
  for (int d = 0; d < Rank; ++d)
    if (d != (Rank == 4 ? 1 : Rank - 1)) rows *= b.extents[d];
  return {b.data, {rows, columns}};
}

}  // namespace tessera
