#pragma once

#include <tessera/core/sharded.hpp>

#include <utility>

/// Values in any layout, for tests that run over layouts as values.
namespace worlds {

using namespace tessera;
using tessera::index_t;

template <int I, int Size>
struct numbered : axis<Size> {};

/// The axes along which a layout is partial with this operation.
template <class Mesh>
axis_set axes_of(placements<Mesh::axes> const& layout, reduction op) {
  unsigned set = 0;
  for (int a = 0; a < Mesh::axes; ++a)
    if (layout[a] == partial_placement(op)) set |= 1u << a;
  return static_cast<axis_set>(set);
}

/// What the device at `at` holds of a whole tensor in a layout. Partial sums are unequal parts that add up exactly: the
/// coordinate along the axis, and what is missing on the first rank. Partial maxima are right on one rank, which
/// changes from element to element, and too small on the others; a value that is partial in both ways is the maximum of
/// sums.
template <class Mesh, class T, int Rank>
tensor<T, Rank> held(tensor<T, Rank> const& whole, placements<Mesh::axes> const& layout,
                     decltype(Mesh::sizes) const& at) {
  const auto part = local_box<Mesh>(layout, whole.extents(), at);
  tensor<T, Rank> out(part.extents());
  copy_box<T>(whole.read(), part, out.view(), {});
  const axis_set maxima = axes_of<Mesh>(layout, reduction::maximum);
  const int winners = Mesh::group_size(maxima);
  const int place = Mesh::group_rank(maxima, at);
  for (T& v : out.view())
    if (static_cast<int>(v) % winners != place) v = static_cast<T>(v - static_cast<T>(2 + place));
  const axis_set sums = axes_of<Mesh>(layout, reduction::sum);
  const int parts = Mesh::group_size(sums);
  const int mine = Mesh::group_rank(sums, at);
  T others{};
  for (int p = 1; p < parts; ++p) others += static_cast<T>(p);
  for (T& v : out.view()) v = mine == 0 ? v - others : static_cast<T>(mine);
  return out;
}

/// What counts of a block that is partial: its reduction.
template <class Mesh, class Team, class T, int Rank>
tensor<T, Rank> reduced(Team& team, placements<Mesh::axes> const& layout, tensor<T, Rank> const& local) {
  auto out = local.clone();
  for (const reduction op : {reduction::sum, reduction::maximum})
    if (const axis_set axes = axes_of<Mesh>(layout, op); axes != 0)
      team.group(axes).all_reduce(out.data(), out.size(), op);
  return out;
}

template <int... Sizes>
using mesh_of = decltype([]<int... I>(std::integer_sequence<int, I...>) {
  return mesh<numbered<I, Sizes>...>{};
}(std::make_integer_sequence<int, sizeof...(Sizes)>{}));

}  // namespace worlds
