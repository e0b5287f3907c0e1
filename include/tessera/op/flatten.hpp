#pragma once

#include <tessera/op/reshape.hpp>

namespace tessera {

namespace detail {

/// Merging dimensions `start` to `end` of `rank`.
constexpr dim_groups flatten_groups(int rank, int start, int end) {
  dim_groups all;
  for (int d = 0; d < rank; d += all.groups[all.count - 1].in) all.add(d == start ? end - start + 1 : 1, 1);
  return all;
}

/// Index rules of merging dimensions `Start` to `End`; `whole` is the extent of the first of them where a cut of it
/// must come out even, else 0.
constexpr index_rules flatten_rules(int rank, int start, int end, index_t whole) {
  std::array<index_t, max_rank> multiples{};
  multiples[static_cast<std::size_t>(start)] = whole;
  return reshape_rules(flatten_groups(rank, start, end), multiples);
}

template <int Rank, int Start, int End>
struct flattened_dims {
  static constexpr dim_groups value = flatten_groups(Rank, Start, End);
};

}  // namespace detail

namespace op {

/// Merges dimensions `Start` to `End` (-1: the last) into one, in logical row-major order: a case of `reshape`.
///
/// Splits: every dimension but those after `Start` inside the range; a cut of `Start` itself must be even unless the
/// others have extent 1 (throws otherwise). Linear, so x may be partial. No collectives.
template <int Start = 1, int End = -1, sharded_tensor X>
auto flatten(X const& x) {
  constexpr int end = End < 0 ? X::rank + End : End;
  static_assert(0 <= Start && Start <= end && end < X::rank,
                "tessera: flatten merges dimensions from Start to End; name dimensions that the tensor has");
  constexpr int merged = end - Start;
  shape<X::rank - merged> extents;
  for (int d = 0; d < extents.rank; ++d) extents[d] = x.extent(d <= Start ? d : d + merged);
  for (int d = Start + 1; d <= end; ++d) extents[Start] *= x.extent(d);
  return detail::regrouped<detail::flattened_dims<X::rank, Start, end>>(x, extents, "flatten");
}

/// Gradient of `flatten`: dy with the extents and dimensions of the input. `Dx` is the input's type.
template <sharded_tensor Dx, sharded_tensor Dy>
Dx flatten_backward(Dy const& dy, shape<Dx::rank> const& extents) {
  static_assert(Dx::placements.partial_axes() == Dy::placements.partial_axes(),
                "tessera: flatten needs the gradient partial along the axes that its input's gradient is partial "
                "along; redistribute it first");
  const auto part = local_box<typename Dx::mesh>(Dx::placements, extents, dy.where().coordinates());
  detail::require_extent(part.size(), dy.local().size(), "size of this rank's block of the input of flatten");
  return detail::reshaped_as<Dx>(dy, extents);
}

}  // namespace op

}  // namespace tessera
