#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera {

/// Extents, offsets and element counts.
using index_t = std::int64_t;

/// An extent that is known only at run time (in static shapes of layers).
inline constexpr index_t dynamic = -1;

/// The most dimensions a tensor can have.
inline constexpr int max_rank = 6;

/// Run-time extents of a tensor of `Rank` dimensions, outermost first in logical order (N, C, H, W for images).
template <int Rank>
struct shape {
  static_assert(Rank >= 0 && Rank <= max_rank, "tessera: tensors have 0 to 6 dimensions; reshape first");
  std::array<index_t, static_cast<std::size_t>(Rank)> extents{};

  static constexpr int rank = Rank;
  constexpr index_t& operator[](int dim) { return extents[static_cast<std::size_t>(dim)]; }
  constexpr index_t operator[](int dim) const { return extents[static_cast<std::size_t>(dim)]; }
  /// Number of elements: 1 for a scalar.
  constexpr index_t size() const {
    index_t n = 1;
    for (int d = 0; d < Rank; ++d) n *= (*this)[d];
    return n;
  }
  friend constexpr bool operator==(shape const&, shape const&) = default;
};

template <class... Extents>
shape(Extents...) -> shape<static_cast<int>(sizeof...(Extents))>;

/// The extents as text, for errors: `[256, 1, 28, 28]`.
template <int Rank>
std::string to_string(shape<Rank> const& s) {
  std::string text = "[";
  for (int d = 0; d < Rank; ++d) text += (d ? ", " : "") + std::to_string(s[d]);
  return text + "]";
}

/// How a dense block of rank 4 lies in memory; other ranks are always row-major.
///
/// `channels_last` stores N, C, H, W as N, H, W, C (and a convolution weight O, I, kh, kw as O, kh, kw, I).
/// The order is a constant of the backend; the logical order of dimensions never changes.
enum class storage_order : std::uint8_t { row_major, channels_last };

/// The storage order in the type of a block of this rank: others than those of rank 4 have one for all backends.
template <int Rank>
constexpr storage_order order_of_rank(storage_order order) {
  return Rank == 4 ? order : storage_order::channels_last;
}

/// Logical dimension that lies at each storage position, outermost first.
template <int Rank, storage_order Order>
constexpr std::array<int, static_cast<std::size_t>(Rank)> stored_dims() {
  std::array<int, static_cast<std::size_t>(Rank)> dims{};
  for (int d = 0; d < Rank; ++d) dims[static_cast<std::size_t>(d)] = d;
  if constexpr (Rank == 4 && Order == storage_order::channels_last) dims = {0, 2, 3, 1};
  return dims;
}

/// Distance in elements between neighbours along each logical dimension of a dense block.
template <storage_order Order, int Rank>
constexpr std::array<index_t, static_cast<std::size_t>(Rank)> strides_of(shape<Rank> const& s) {
  std::array<index_t, static_cast<std::size_t>(Rank)> strides{};
  constexpr auto dims = stored_dims<Rank, Order>();
  index_t step = 1;
  for (int p = Rank - 1; p >= 0; --p) {
    const int d = dims[static_cast<std::size_t>(p)];
    strides[static_cast<std::size_t>(d)] = step;
    step *= s[d];
  }
  return strides;
}

}  // namespace tessera
