#pragma once

#include <tessera/core/partition.hpp>
#include <tessera/core/shape.hpp>

#include <algorithm>
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

  /// The element at logical indices, for tests and small loops (kernels walk `data`).
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

/// The same memory with other extents of the same size. The caller knows that the storage orders agree.
template <int Rank, class T, int From, storage_order Order>
constexpr block<T, Rank, Order> reinterpret_shape(block<T, From, Order> b, shape<Rank> to) {
  return {b.data, to};
}

/// A block as a matrix whose columns are the dimension that lies innermost: channels for images (N*H*W x C).
template <class T, int Rank, storage_order Order>
constexpr block<T, 2, Order> as_matrix(block<T, Rank, Order> b) {
  static_assert(Rank >= 1 && !(Rank == 4 && Order == storage_order::row_major),
                "tessera: only blocks whose last stored dimension is the feature can be seen as a matrix");
  const index_t columns = b.extents[Rank == 4 ? 1 : Rank - 1];
  index_t rows = 1;
  for (int d = 0; d < Rank; ++d)
    if (d != (Rank == 4 ? 1 : Rank - 1)) rows *= b.extents[d];
  return {b.data, {rows, columns}};
}

/// Copies the part `part` (in the source's own indices) of `from` to the place `at` of `to`.
///
/// Runs that are contiguous in both blocks are copied as one piece.
template <class T, int Rank, storage_order Order>
void copy_box(block<T const, Rank, Order> from, box<Rank> const& part, block<T, Rank, Order> to,
              std::array<index_t, static_cast<std::size_t>(Rank)> const& at) {
  if (part.size() == 0) return;
  if constexpr (Rank == 0) {
    *to.data = *from.data;
  } else {
    constexpr auto dims = stored_dims<Rank, Order>();
    const auto source = strides_of<Order>(from.extents);
    const auto target = strides_of<Order>(to.extents);
    // Merge inner dimensions while they are whole in both blocks.
    index_t run = 1;
    int outer = Rank;  // storage positions below `outer` are walked, the rest is one run
    while (outer > 0) {
      const int d = dims[static_cast<std::size_t>(outer - 1)];
      run *= part[d].size;
      --outer;
      if (part[d].size != from.extents[d] || part[d].size != to.extents[d]) break;
    }
    std::array<index_t, static_cast<std::size_t>(Rank)> step{};
    index_t read = 0;
    index_t write = 0;
    for (int d = 0; d < Rank; ++d) {
      const auto i = static_cast<std::size_t>(d);
      read += part[d].begin * source[i];
      write += at[i] * target[i];
    }
    for (;;) {
      std::copy_n(from.data + read, run, to.data + write);
      int p = outer - 1;
      for (; p >= 0; --p) {
        const int d = dims[static_cast<std::size_t>(p)];
        const auto i = static_cast<std::size_t>(d);
        read += source[i];
        write += target[i];
        if (++step[i] < part[d].size) break;
        read -= source[i] * part[d].size;
        write -= target[i] * part[d].size;
        step[i] = 0;
      }
      if (p < 0) return;
    }
  }
}

}  // namespace tessera
