#pragma once

#include <tessera/redistribute/step.hpp>

namespace tessera {

namespace detail {

/// What share of a tensor a device holds where all cuts are even.
template <int Axes>
constexpr double share(mesh_sizes<Axes> const& mesh, placements<Axes> const& layout) {
  return 1.0 / mesh.group_size(layout.axes_of(placement_kind::shard));
}

/// What share of a tensor a device holds in both layouts at the least, where all cuts are even: where a dimension is
/// cut by different axes after the same ones, some device holds nothing of it in both.
template <int Axes>
constexpr double shared(mesh_sizes<Axes> const& mesh, placements<Axes> const& a, placements<Axes> const& b) {
  double size = 1;
  const int last = a.last_cut_dim() > b.last_cut_dim() ? a.last_cut_dim() : b.last_cut_dim();
  for (int d = 0; d <= last; ++d) {
    int order = 0;
    for (; order < a.cuts(d) && order < b.cuts(d); ++order) {
      if (a.axis_cutting(d, order) != b.axis_cutting(d, order)) return 0;
      size /= mesh[a.axis_cutting(d, order)];
    }
    // Now one of them is cut no further: the other's part lies in it.
    for (int i = order; i < a.cuts(d); ++i) size /= mesh[a.axis_cutting(d, i)];
    for (int i = order; i < b.cuts(d); ++i) size /= mesh[b.axis_cutting(d, i)];
  }
  return size;
}

/// The share of a tensor that a device receives in a step at the most, where all cuts are even.
template <int Axes>
constexpr double received_share(mesh_sizes<Axes> const& mesh, step<Axes> const& s) {
  const int group = mesh.group_size(s.group);
  switch (s.kind) {
    case step_kind::all_gather: return share(mesh, s.to) - share(mesh, s.from);
    case step_kind::reduce_scatter: return (group - 1) * share(mesh, s.to);
    case step_kind::all_reduce: return 2.0 * (group - 1) / group * share(mesh, s.from);
    case step_kind::exchange: return share(mesh, s.to) - shared(mesh, s.from, s.to);
    default: return 0;
  }
}

template <int Axes>
constexpr double received_share(mesh_sizes<Axes> const& mesh, route<Axes> const& r) {
  double sum = 0;
  for (auto const& s : r) sum += received_share(mesh, s);
  return sum;
}

/// Appends the step to `to`, if there is anything to do.
template <int Axes>
constexpr void go(route<Axes>& r, placements<Axes> const& from, placements<Axes> const& to) {
  if (!(from == to)) r.add(one_step(from, to));
}

/// `here` cut by those axes of `set` that it may be cut by, as `to` cuts: in `to`'s order, after all cuts of `here`.
template <int Axes>
constexpr placements<Axes> cut_towards(placements<Axes> here, placements<Axes> const& to, axis_set set) {
  for (int order = 0; order < Axes; ++order)
    for (int a = 0; a < Axes; ++a)
      if ((set >> a & 1) != 0 && to[a].is_shard() && to[a].order == order && !here[a].is_shard())
        here[a] = shard_placement(to[a].dim, here.cuts(to[a].dim));
  return here;
}

/// See `find_route`. Sums are resolved before maxima, then what remains is exchanged.
///
/// Let L be what a device holds of a partial value, w what it shall hold, g the devices that values are partial over. A
/// reduce-scatter makes each device receive (g - 1) times what it keeps, so it keeps as little as possible, cutting
/// also by axes that replicate so far, and one exchange brings every device to w: it receives L (1 - 1/g) + w - L / g.
/// Or what shall be cut is reduce-scattered and an all-reduce does the rest. All such ways are compared.
template <int Axes>
constexpr route<Axes> least_route(mesh_sizes<Axes> const& mesh, placements<Axes> const& from,
                                  placements<Axes> const& to, int rank) {
  unsigned sums = 0;
  unsigned maxima = 0;
  for (int a = 0; a < Axes; ++a)
    if (from[a].is_partial() && !to[a].is_partial()) (from[a].op == reduction::sum ? sums : maxima) |= 1u << a;
  const unsigned resolved = sums != 0 ? sums : maxima;
  route<Axes> best;
  if (resolved == 0) {
    go(best, from, to);
    return best;
  }
  unsigned replicated = 0;  // of the resolved: replicated in the end
  unsigned spread = 0;      // replicated, in the end cut
  for (int a = 0; a < Axes; ++a) {
    if ((resolved >> a & 1) != 0 && to[a].is_replicated()) replicated |= 1u << a;
    if (from[a].is_replicated() && to[a].is_shard()) spread |= 1u << a;
  }
  const auto append_rest = [&](route<Axes>& r, placements<Axes> const& here) {
    for (auto const& s : least_route(mesh, here, to, rank)) r.add(s);
  };

  const placements<Axes> scattered = cut_towards(from, to, static_cast<axis_set>(resolved | spread));
  placements<Axes> reduced = scattered;
  for (int a = 0; a < Axes; ++a)
    if (replicated >> a & 1) reduced[a] = replicated_placement();
  go(best, from, scattered);
  go(best, scattered, reduced);
  append_rest(best, reduced);
  double least = received_share(mesh, best);

  // Where cuts of `from` must move, the exchange moves less from a middle that is cut where `from` is not: all are
  // tried.
  const axis_set moving = moving_axes(reduced, to);
  const bool moves = moving != 0 && !only_gathers(reduced, to, moving);
  if (replicated == 0 && !moves) return best;
  const axis_set placed = mesh.cutting(static_cast<axis_set>(moves ? resolved | spread : replicated));
  int choices = 1;
  for (int a = 0; a < Axes; ++a)
    if (placed >> a & 1) choices *= rank;
  for (int choice = 0; choice < choices; ++choice) {
    placements<Axes> middle = moves ? from : scattered;
    int rest = choice;
    // Those that `to` cuts by come in its order, then the others.
    for (int order = 0; order <= Axes; ++order)
      for (int a = 0; a < Axes; ++a)
        if ((placed >> a & 1) != 0 && (to[a].is_shard() ? to[a].order : Axes) == order) {
          middle[a] = shard_placement(rest % rank, middle.cuts(rest % rank));
          rest /= rank;
        }
    if (one_step(from, middle).kind != step_kind::reduce_scatter) continue;
    route<Axes> r;
    go(r, from, middle);
    append_rest(r, middle);
    const double received = received_share(mesh, r);
    if (received < least - 1e-9 || (received < least + 1e-9 && r.count < best.count)) {
      best = r;
      least = received;
    }
  }
  return best;
}

}  // namespace detail

/// The steps from one layout of a tensor of `rank` dimensions to another on a mesh, for large tensors: no device
/// receives more elements than by any other sequence of steps that leaves whole what is whole before and after, and of
/// equal ones this has the fewest steps.
///
/// Cuts are taken for even. Where nothing is partial one step does, and it receives exactly what a device lacks.
/// Partial values that end up cut are reduce-scattered, never all-reduced. A value that is partial in both ways is the
/// maximum of sums. Axes that replicate before and after do nothing, so that a partial sum is made whole by one
/// all-reduce; `cheapest_route` (redistribute/search.hpp) also lets such copies share the work, and knows about
/// latency.
template <int Axes>
constexpr route<Axes> find_route(mesh_sizes<Axes> const& mesh, placements<Axes> const& from, placements<Axes> const& to,
                                 int rank) {
  return detail::least_route(mesh, from, to, rank);
}

/// Does not compile, with the reason, where no route exists.
template <auto From, auto To>
constexpr bool check_reach() {
  constexpr route_fault fault = fault_between(From, To);
  static_assert(fault != route_fault::becomes_partial,
                "tessera: a value that is not partial cannot become partial; name shards in the target layout, or "
                "nothing to replicate");
  static_assert(fault != route_fault::maximum_of_parts,
                "tessera: a maximum is taken of whole sums, never of parts of them; resolve the partial sum too, by "
                "naming shards for its axes, or nothing to replicate");
  return true;
}

/// The steps between two layouts of a tensor of `Rank` dimensions, found while compiling.
template <device_mesh Mesh, placements<Mesh::axes> From, placements<Mesh::axes> To, int Rank>
inline constexpr route<Mesh::axes> route_between = [] {
  check_reach<From, To>();
  return find_route(Mesh::value, From, To, Rank);
}();

}  // namespace tessera
