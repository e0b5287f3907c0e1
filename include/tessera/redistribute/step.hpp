#pragma once

#include <tessera/core/layout.hpp>

namespace tessera {

/// One step of a route.
enum class step_kind : std::uint8_t {
  none,            ///< no single step leads there
  slice,           ///< each rank keeps a part of what it holds; nothing is sent
  all_gather,      ///< cuts are undone, innermost first
  reduce_scatter,  ///< partial values become cut ones; each rank sends only what the others keep
  all_reduce,      ///< partial values become replicated ones
  exchange         ///< each rank sends exactly the blocks that others lack
};

/// The name, for tables.
constexpr char const* to_string(step_kind kind) {
  switch (kind) {
    case step_kind::none: return "none";
    case step_kind::slice: return "slice";
    case step_kind::all_gather: return "all_gather";
    case step_kind::reduce_scatter: return "reduce_scatter";
    case step_kind::all_reduce: return "all_reduce";
    case step_kind::exchange: return "exchange";
  }
  return "unknown";
}

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

namespace detail {

/// Whether the cuts of `dim` before position `order` are the same in both layouts.
template <int Axes>
constexpr bool same_prefix(placements<Axes> const& a, placements<Axes> const& b, int dim, int order) {
  for (int i = 0; i < order; ++i)
    if (a.axis_cutting(dim, i) != b.axis_cutting(dim, i)) return false;
  return true;
}

/// Whether an axis cuts the same elements in both layouts: the same dimension, after the same other axes.
template <int Axes>
constexpr bool cuts_alike(placements<Axes> const& a, placements<Axes> const& b, int axis) {
  return a[axis].is_shard() && b[axis] == a[axis] && same_prefix(a, b, a[axis].dim, a[axis].order);
}

/// Axes along which data must move: those that cut `from` but not in the same place of `to`.
template <int Axes>
constexpr axis_set moving_axes(placements<Axes> const& from, placements<Axes> const& to) {
  unsigned set = 0;
  for (int a = 0; a < Axes; ++a)
    if (from[a].is_shard() && !cuts_alike(from, to, a)) set |= 1u << a;
  return static_cast<axis_set>(set);
}

/// Whether `to` is `from` without the cuts of `gone`.
template <int Axes>
constexpr bool only_gathers(placements<Axes> const& from, placements<Axes> const& to, axis_set gone) {
  for (int a = 0; a < Axes; ++a)
    if (gone >> a & 1 ? !to[a].is_replicated() : !(to[a] == from[a])) return false;
  return true;
}

}  // namespace detail

/// The one step that leads from a layout to another; its kind is `none` where it takes more than one, or none can.
///
/// Without reductions one step always does: every rank takes each piece that it lacks from the rank that has its own
/// coordinates wherever `from` replicates. A reduce-scatter may cut by replicated axes on its way.
template <int Axes>
constexpr step<Axes> one_step(placements<Axes> const& from, placements<Axes> const& to) {
  unsigned reduced = 0;
  unsigned scattered = 0;
  bool cuts = false;  // by axes that were replicated
  reduction op = reduction::sum;
  for (int a = 0; a < Axes; ++a) {
    if (to[a].is_partial() && !(to[a] == from[a])) return {step_kind::none, 0, op, from, to};
    if (from[a].is_partial() && !to[a].is_partial()) {
      if ((reduced | scattered) != 0 && op != from[a].op) return {step_kind::none, 0, op, from, to};
      op = from[a].op;
      (to[a].is_shard() ? scattered : reduced) |= 1u << a;
    }
    cuts = cuts || (from[a].is_replicated() && to[a].is_shard());
  }
  const axis_set moving = detail::moving_axes(from, to);
  if (reduced == 0 && scattered == 0) {
    if (moving == 0) return {step_kind::slice, 0, op, from, to};
    if (detail::only_gathers(from, to, moving)) return {step_kind::all_gather, moving, op, from, to};
    return {step_kind::exchange, moving, op, from, to};
  }
  if (moving == 0 && scattered == 0 && !cuts)
    return {step_kind::all_reduce, static_cast<axis_set>(reduced), op, from, to};
  if (moving == 0 && reduced == 0) return {step_kind::reduce_scatter, static_cast<axis_set>(scattered), op, from, to};
  return {step_kind::none, 0, op, from, to};
}

/// Why there may be no route between two layouts.
enum class route_fault : std::uint8_t {
  none,
  becomes_partial,  ///< a value that is not partial over an axis cannot become partial over it
  maximum_of_parts  ///< a value partial in both ways is the maximum of sums: none is taken while the sums are partial
};

template <int Axes>
constexpr route_fault fault_between(placements<Axes> const& from, placements<Axes> const& to) {
  bool kept_sum = false;
  bool maximum = false;
  for (int a = 0; a < Axes; ++a) {
    if (to[a].is_partial() && !(to[a] == from[a])) return route_fault::becomes_partial;
    kept_sum = kept_sum || to[a] == partial_placement(reduction::sum);
    maximum = maximum || (from[a] == partial_placement(reduction::maximum) && !to[a].is_partial());
  }
  return kept_sum && maximum ? route_fault::maximum_of_parts : route_fault::none;
}

/// Whether a route exists.
template <int Axes>
constexpr bool can_reach(placements<Axes> const& from, placements<Axes> const& to) {
  return fault_between(from, to) == route_fault::none;
}

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

}  // namespace tessera
