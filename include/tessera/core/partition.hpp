#pragma once

#include <tessera/core/shape.hpp>

namespace tessera {

/// A half-open interval of indices along one dimension.
struct interval {
  index_t begin = 0;
  index_t size = 0;
  constexpr index_t end() const { return begin + size; }
  friend constexpr bool operator==(interval const&, interval const&) = default;
};

/// The split rule of the whole library: part `part` of `whole` cut into `parts` floor/ceil blocks.
///
/// The first `size % parts` parts hold one element more than the others; a part may be empty.
/// Extent 10 over 4 parts gives 3, 3, 2, 2; extent 3 over 4 gives 1, 1, 1, 0.
constexpr interval cut(interval whole, int parts, int part) {
  const index_t base = whole.size / parts;
  const index_t rest = whole.size % parts;
  const index_t begin = base * part + (part < rest ? part : rest);
  return {whole.begin + begin, base + (part < rest ? 1 : 0)};
}

/// The overlap of two intervals, empty (size 0) where they are disjoint.
constexpr interval intersect(interval a, interval b) {
  const index_t begin = a.begin > b.begin ? a.begin : b.begin;
  const index_t end = a.end() < b.end() ? a.end() : b.end();
  return {begin, end > begin ? end - begin : 0};
}

/// A rectangular part of a tensor: one interval a dimension.
template <int Rank>
struct box {
  std::array<interval, static_cast<std::size_t>(Rank)> sides{};
  constexpr interval& operator[](int dim) { return sides[static_cast<std::size_t>(dim)]; }
  constexpr interval operator[](int dim) const { return sides[static_cast<std::size_t>(dim)]; }
  constexpr shape<Rank> extents() const {
    shape<Rank> s;
    for (int d = 0; d < Rank; ++d) s[d] = (*this)[d].size;
    return s;
  }
  constexpr index_t size() const { return extents().size(); }
  friend constexpr bool operator==(box const&, box const&) = default;
};

/// The overlap of two boxes of the same tensor.
template <int Rank>
constexpr box<Rank> intersect(box<Rank> const& a, box<Rank> const& b) {
  box<Rank> both;
  for (int d = 0; d < Rank; ++d) both[d] = intersect(a[d], b[d]);
  return both;
}

}  // namespace tessera
