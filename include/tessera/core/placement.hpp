#pragma once

#include <tessera/core/mesh.hpp>
#include <tessera/core/partition.hpp>
#include <tessera/core/reduction.hpp>

namespace tessera {

/// What one mesh axis does to a tensor.
enum class placement_kind : std::uint8_t {
  // Not from 0: g++ 12 takes template arguments for equal whose arrays differ only in where their zero elements are.
  replicated = 1,  ///< every rank along the axis holds the same
  shard,           ///< the axis cuts a dimension
  partial          ///< the true value is the reduction of what the ranks hold
};

/// What one mesh axis does to a tensor, as a value: a layout is one of these for each axis of the mesh.
struct placement {
  placement_kind kind = placement_kind::replicated;
  std::int8_t dim = 0;            ///< of a shard: the dimension that is cut
  std::int8_t order = 0;          ///< of a shard: how many axes cut this dimension before this one
  reduction op = reduction::sum;  ///< of a partial
  friend constexpr bool operator==(placement const&, placement const&) = default;

  constexpr bool is_replicated() const { return kind == placement_kind::replicated; }
  constexpr bool is_shard() const { return kind == placement_kind::shard; }
  constexpr bool is_shard(int d) const { return is_shard() && dim == d; }
  constexpr bool is_partial() const { return kind == placement_kind::partial; }
};

constexpr placement replicated_placement() { return {}; }
constexpr placement shard_placement(int dim, int order = 0) {
  return {placement_kind::shard, static_cast<std::int8_t>(dim), static_cast<std::int8_t>(order), reduction::sum};
}
constexpr placement partial_placement(reduction op = reduction::sum) { return {placement_kind::partial, 0, 0, op}; }

/// A layout as a value: what each axis of a mesh of `Axes` axes does. Equal layouts are equal values.
///
/// All constant evaluation (rules, routes, plans) works on these; `layout<...>` is the spelling for people.
template <int Axes>
struct placements {
  placement axis[Axes > 0 ? Axes : 1] = {};
  friend constexpr bool operator==(placements const&, placements const&) = default;

  constexpr placement& operator[](int a) { return axis[a]; }
  constexpr placement const& operator[](int a) const { return axis[a]; }

  /// The axes with a given kind of placement.
  constexpr axis_set axes_of(placement_kind kind) const {
    unsigned set = 0;
    for (int a = 0; a < Axes; ++a)
      if (axis[a].kind == kind) set |= 1u << a;
    return static_cast<axis_set>(set);
  }
  constexpr axis_set partial_axes() const { return axes_of(placement_kind::partial); }
  /// The axes that cut a dimension.
  constexpr axis_set shard_axes(int dim) const {
    unsigned set = 0;
    for (int a = 0; a < Axes; ++a)
      if (axis[a].is_shard(dim)) set |= 1u << a;
    return static_cast<axis_set>(set);
  }
  /// The axis that cuts `dim` after `order` others, or -1.
  constexpr int axis_cutting(int dim, int order) const {
    for (int a = 0; a < Axes; ++a)
      if (axis[a].is_shard(dim) && axis[a].order == order) return a;
    return -1;
  }
  /// Number of axes that cut a dimension.
  constexpr int cuts(int dim) const {
    int n = 0;
    for (int a = 0; a < Axes; ++a) n += axis[a].is_shard(dim) ? 1 : 0;
    return n;
  }
  /// The largest dimension that is cut, -1 where none is.
  constexpr int last_cut_dim() const {
    int last = -1;
    for (int a = 0; a < Axes; ++a)
      if (axis[a].is_shard() && axis[a].dim > last) last = axis[a].dim;
    return last;
  }
  /// Renumbers the orders of each dimension 0, 1, 2, ... keeping their sequence (mesh order among equals).
  constexpr placements normalized() const {
    placements out = *this;
    for (int a = 0; a < Axes; ++a) {
      if (!axis[a].is_shard()) continue;
      int before = 0;
      for (int b = 0; b < Axes; ++b)
        if (axis[b].is_shard(axis[a].dim) &&
            (axis[b].order < axis[a].order || (axis[b].order == axis[a].order && b < a)))
          ++before;
      out.axis[a].order = static_cast<std::int8_t>(before);
    }
    return out;
  }
};

/// The part of a tensor of extents `global` that the device at `at` holds: dimensions that no axis cuts are whole.
template <int Axes, int Rank>
constexpr box<Rank> local_box(mesh_sizes<Axes> const& mesh, placements<Axes> const& layout, shape<Rank> const& global,
                              typename mesh_sizes<Axes>::coordinates_type const& at) {
  box<Rank> part;
  for (int d = 0; d < Rank; ++d) {
    part[d] = {0, global[d]};
    for (int order = 0;; ++order) {
      const int a = layout.axis_cutting(d, order);
      if (a < 0) break;
      part[d] = cut(part[d], mesh[a], at[static_cast<std::size_t>(a)]);
    }
  }
  return part;
}
template <device_mesh Mesh, int Rank>
constexpr box<Rank> local_box(placements<Mesh::axes> const& layout, shape<Rank> const& global,
                              decltype(Mesh::sizes) const& at) {
  return local_box(Mesh::value, layout, global, at);
}

}  // namespace tessera
