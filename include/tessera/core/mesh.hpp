#pragma once

#include <tessera/core/axis.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace tessera {

/// A set of mesh axes, one bit each, in mesh order (bit 0 is the first axis of the mesh).
using axis_set = std::uint8_t;

namespace detail {

template <class... Axes>
constexpr bool all_distinct() {
  if constexpr (sizeof...(Axes) < 2) {
    return true;
  } else {
    return []<class First, class... Rest>(std::type_identity<First>, std::type_identity<Rest>...) {
      return (!std::is_same_v<First, Rest> && ...) && all_distinct<Rest...>();
    }(std::type_identity<Axes>{}...);
  }
}

template <class Axis, class... Axes>
constexpr int position_of() {
  int position = 0;
  const bool found = ((std::is_same_v<Axis, Axes> || (++position, false)) || ...);
  return found ? position : -1;
}

}  // namespace detail

/// A mesh as a value: how many devices lie along each of its axes. `mesh<...>` has one, and programs that read a mesh
/// from text (and planners that try many) make their own.
template <int Axes>
struct mesh_sizes {
  int along[Axes > 0 ? Axes : 1] = {};

  /// The place of a device: one coordinate for each axis.
  using coordinates_type = std::array<int, static_cast<std::size_t>(Axes)>;

  friend constexpr bool operator==(mesh_sizes const&, mesh_sizes const&) = default;
  constexpr int operator[](int axis) const { return along[axis]; }

  constexpr int devices() const { return group_size(static_cast<axis_set>((1u << Axes) - 1u)); }

  /// The axes of a set that have more than one device.
  constexpr axis_set cutting(axis_set set) const {
    for (int a = 0; a < Axes; ++a)
      if (along[a] == 1) set = static_cast<axis_set>(set & ~(1u << a));
    return set;
  }

  /// Coordinates of a rank: row-major order, last axis fastest.
  constexpr coordinates_type coordinates(int rank) const {
    return group_member(static_cast<axis_set>((1u << Axes) - 1u), {}, rank);
  }

  /// Number of devices in a group of ranks that differ only in the axes of `set`.
  constexpr int group_size(axis_set set) const {
    int size = 1;
    for (int a = 0; a < Axes; ++a)
      if (set >> a & 1) size *= along[a];
    return size;
  }

  /// Position of a rank in its group along the axes of `set`: row-major over those axes in mesh order.
  constexpr int group_rank(axis_set set, coordinates_type const& at) const {
    int rank = 0;
    for (int a = 0; a < Axes; ++a)
      if (set >> a & 1) rank = rank * along[a] + at[static_cast<std::size_t>(a)];
    return rank;
  }

  /// Coordinates of member `rank` of the group along the axes of `set` that contains the device at `at`.
  constexpr coordinates_type group_member(axis_set set, coordinates_type at, int rank) const {
    for (int a = Axes - 1; a >= 0; --a)
      if (set >> a & 1) {
        at[static_cast<std::size_t>(a)] = rank % along[a];
        rank /= along[a];
      }
    return at;
  }
};

/// The devices of a program, arranged along named axes: `mesh<dp, tp>` has `dp::size * tp::size` devices.
///
/// Rank r sits at the coordinates of r written in mixed radix, last axis fastest (row-major order).
/// A mesh of no axes is one device.
template <class... Axes>
struct mesh {
  static_assert((mesh_axis<Axes> && ...),
                "tessera: an axis of this mesh is no mesh axis; derive its tag from axis<Size>, as in "
                "struct dp : tessera::axis<2> {}");
  static_assert(detail::all_distinct<Axes...>(),
                "tessera: an axis is used twice in this mesh; give each mesh axis a tag type of its own");
  static_assert(sizeof...(Axes) <= 8, "tessera: a mesh has at most 8 axes; merge some of them");

  /// Number of axes.
  static constexpr int axes = static_cast<int>(sizeof...(Axes));
  /// Number of devices.
  static constexpr int devices = (1 * ... * Axes::size);
  /// Devices along each axis, in mesh order.
  static constexpr std::array<int, sizeof...(Axes)> sizes{Axes::size...};
  /// The axis tag at a position.
  template <int I>
  using axis_at = std::tuple_element_t<static_cast<std::size_t>(I), std::tuple<Axes...>>;

  /// Whether the mesh has this axis.
  template <class Axis>
  static constexpr bool has = (std::is_same_v<Axis, Axes> || ...);

  /// Position of an axis in the mesh.
  template <class Axis>
  static constexpr int index_of = [] {
    static_assert(has<Axis>, "tessera: the mesh lacks this axis; add it to mesh<...> or name another axis");
    return detail::position_of<Axis, Axes...>();
  }();

  /// The set of the named axes.
  template <class... Some>
  static constexpr axis_set set_of = static_cast<axis_set>((0u | ... | (1u << index_of<Some>)));
  /// All axes.
  static constexpr axis_set all = static_cast<axis_set>((1u << axes) - 1u);

  /// The mesh as a value. The functions below are those of `mesh_sizes`.
  static constexpr mesh_sizes<sizeof...(Axes)> value{{Axes::size...}};

  static constexpr axis_set cutting(axis_set set) { return value.cutting(set); }
  static constexpr std::array<int, sizeof...(Axes)> coordinates(int rank) { return value.coordinates(rank); }
  static constexpr int group_size(axis_set set) { return value.group_size(set); }
  static constexpr int group_rank(axis_set set, std::array<int, sizeof...(Axes)> const& at) {
    return value.group_rank(set, at);
  }
  static constexpr std::array<int, sizeof...(Axes)> group_member(axis_set set, std::array<int, sizeof...(Axes)> at,
                                                                 int rank) {
    return value.group_member(set, at, rank);
  }
};

namespace detail {
template <class... Axes>
std::true_type is_mesh(mesh<Axes...> const&);
}

/// Satisfied by `mesh<...>`.
template <class M>
concept device_mesh = requires(M const& m) {
  detail::is_mesh(m);
};

}  // namespace tessera
