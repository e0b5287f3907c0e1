#pragma once

#include <tessera/core/layout.hpp>

namespace tessera {

/// One step of a route.
enum class step_kind : std::uint8_t {
  slice,           ///< each rank keeps a part of what it holds; nothing is sent
  all_gather,      ///< cuts are undone, innermost first
  reduce_scatter,  ///< partial values become cut ones
  all_reduce,      ///< partial values become replicated ones
  exchange         ///< each rank sends exactly the blocks that others lack
};

/// A step from one layout to another along the axes of `group` (none for a slice).
template <int Axes>
struct step {
  step_kind kind{};
  axis_set group{};
  reduction op{};
  placements<Axes> from{};
  placements<Axes> to{};
  friend constexpr bool operator==(step const&, step const&) = default;
};

/// The steps from one layout to another, in order.
template <int Axes>
struct route {
  static constexpr int most = 3 * (Axes > 0 ? Axes : 1) + 1;
  step<Axes> steps[static_cast<std::size_t>(most)]{};
  int count = 0;
  friend constexpr bool operator==(route const&, route const&) = default;
  constexpr step<Axes> const* begin() const { return steps; }
  constexpr step<Axes> const* end() const { return steps + count; }
  constexpr void add(step<Axes> const& s) { steps[count++] = s; }
};

namespace detail {

/// Whether the cuts of `dim` before position `order` are the same in both layouts.
template <int Axes>
constexpr bool same_prefix(placements<Axes> const& a, placements<Axes> const& b, int dim, int order) {
  for (int i = 0; i < order; ++i)
    if (a.axis_cutting(dim, i) != b.axis_cutting(dim, i)) return false;
  return true;
}

/// Axes along which data of a change without reductions must move: those that cut `from` but not in the same place.
template <int Axes>
constexpr axis_set moving_axes(placements<Axes> const& from, placements<Axes> const& to) {
  unsigned set = 0;
  for (int a = 0; a < Axes; ++a)
    if (from[a].is_shard() && !(to[a] == from[a] && same_prefix(from, to, from[a].dim, from[a].order))) set |= 1u << a;
  return static_cast<axis_set>(set);
}

/// Whether `to` is `from` without the cuts of `gone`.
template <int Axes>
constexpr bool only_gathers(placements<Axes> const& from, placements<Axes> const& to, axis_set gone) {
  for (int a = 0; a < Axes; ++a)
    if (gone >> a & 1 ? !to[a].is_replicated() : !(to[a] == from[a])) return false;
  return true;
}

/// Cuts by axes that `here` replicates and `to` cuts next, as far as that needs no data of other ranks.
template <int Axes>
constexpr placements<Axes> sliced_towards(placements<Axes> here, placements<Axes> const& to) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int a = 0; a < Axes; ++a)
      if (here[a].is_replicated() && to[a].is_shard() && here.cuts(to[a].dim) == to[a].order &&
          same_prefix(here, to, to[a].dim, to[a].order)) {
        here[a] = to[a];
        changed = true;
      }
  }
  return here;
}

}  // namespace detail

/// Whether a route exists: a value that is not partial over an axis cannot become partial over it.
template <int Axes>
constexpr bool can_reach(placements<Axes> const& from, placements<Axes> const& to) {
  for (int a = 0; a < Axes; ++a)
    if (to[a].is_partial() && !(to[a] == from[a])) return false;
  return true;
}

/// The steps from one layout to another on a mesh.
///
/// Slices come first, because they make everything after them smaller. Partial values that end up cut are
/// reduce-scattered, never all-reduced; those that end up replicated share one all-reduce. What then still differs
/// is one gather or one exchange.
template <int Axes>
constexpr route<Axes> find_route(placements<Axes> const& from, placements<Axes> const& to) {
  route<Axes> r;
  placements<Axes> here = from;
  const auto move = [&](step_kind kind, axis_set group, reduction op, placements<Axes> const& next) {
    if (next == here) return;
    r.add({kind, group, op, here, next});
    here = next;
  };

  if (from.partial_axes() != 0) move(step_kind::slice, 0, reduction::sum, detail::sliced_towards(here, to));
  for (const reduction op : {reduction::sum, reduction::maximum}) {
    placements<Axes> scattered = here;
    unsigned scatter = 0;
    unsigned reduce = 0;
    for (int order = 0; order < Axes; ++order)
      for (int a = 0; a < Axes; ++a) {
        if (!(here[a] == partial_placement(op)) || to[a].is_partial()) continue;
        if (to[a].is_replicated()) reduce |= 1u << a;
        if (to[a].is_shard() && to[a].order == order) {
          scattered[a] = shard_placement(to[a].dim, scattered.cuts(to[a].dim));
          scatter |= 1u << a;
        }
      }
    move(step_kind::reduce_scatter, static_cast<axis_set>(scatter), op, scattered);
    placements<Axes> reduced = here;
    for (int a = 0; a < Axes; ++a)
      if (reduce >> a & 1) reduced[a] = replicated_placement();
    move(step_kind::all_reduce, static_cast<axis_set>(reduce), op, reduced);
  }

  const axis_set moving = detail::moving_axes(here, to);
  if (moving == 0)
    move(step_kind::slice, 0, reduction::sum, to);
  else if (detail::only_gathers(here, to, moving))
    move(step_kind::all_gather, moving, reduction::sum, to);
  else
    move(step_kind::exchange, moving, reduction::sum, to);
  return r;
}

/// The steps between two layouts, found while compiling.
template <device_mesh Mesh, placements<Mesh::axes> From, placements<Mesh::axes> To>
inline constexpr route<Mesh::axes> route_between = [] {
  static_assert(can_reach(From, To),
                "tessera: a value that is not partial cannot become partial; name shards in the target layout, or "
                "nothing to replicate");
  return find_route(From, To);
}();

}  // namespace tessera
