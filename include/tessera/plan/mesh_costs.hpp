#pragma once

#include <tessera/plan/machine.hpp>
#include <tessera/redistribute/route.hpp>

namespace tessera {

/// What collectives cost in each group of a mesh, by the set of axes along which the ranks of the group differ. A group
/// of one rank costs nothing.
///
/// Collectives run level by level: a reduce-scatter in the innermost groups, then among them on what each rank kept,
/// and so on outwards; an all-gather the other way round; an all-reduce is both. On a level where a rank joins g parts
/// of B bytes together it receives (g - 1) / g of B in log2(g) rounds (R. Thakur, R. Rabenseifner and W. Gropp, Int. J.
/// High Performance Computing Applications 19, 2005), or, where each two ranks have a link of their own, all parts at
/// once.
template <int Axes>
struct mesh_costs {
  static constexpr int sets = 1 << Axes;
  /// An all_gather or reduce_scatter of a tensor whose whole block has B bytes takes `latency + seconds_per_byte * B`
  /// seconds, an all_reduce of B bytes twice that.
  link_cost gather[sets] = {};
  /// An exchange with all others of the group: the latencies of its messages, one after the other, and seconds for each
  /// byte that a rank receives, as if all came over the slowest link.
  link_cost exchange[sets] = {};
  /// Half of an all_reduce of a bucket of gradients, as `gather`.
  link_cost bucket[sets] = {};
  /// Seconds for each byte of a block that a rank copies before or after a step of a route: joined or cut along another
  /// dimension than the first, the parts of a block do not lie one after the other. 0 where memory is not described.
  double packing = 0;
  /// One message between neighbours of the group, over its slowest link.
  link_cost message[sets] = {};
};

namespace detail {

/// Adds a level on which groups of `below` ranks, which have joined their parts already, become groups of `inside`.
template <int Axes>
constexpr void add_level(mesh_costs<Axes>& out, int set, link_level const& level, int below, int inside) {
  const int joined = inside / below;
  if (joined == 1) return;
  link_cost const& link = level.link;
  const bool pairs = level.pairs;
  const double from_all = link.seconds_per_byte / (pairs ? joined - 1 : 1);
  link_cost& gather = out.gather[set];
  link_cost& exchange = out.exchange[set];
  link_cost& message = out.message[set];
  const double latency = link.latency * (pairs ? 1 : doubling_rounds(joined));
  // Inwards of this level each rank deals with 1 / below of the whole.
  const double per_byte = from_all * (joined - 1) / inside;
  gather.latency += latency;
  gather.seconds_per_byte += per_byte;
  out.bucket[set].latency += latency / level.buckets;
  out.bucket[set].seconds_per_byte += per_byte / level.buckets;
  exchange.latency += link.latency * (inside - below);
  if (from_all > exchange.seconds_per_byte) exchange.seconds_per_byte = from_all;
  if (link.latency > message.latency) message.latency = link.latency;
  if (link.seconds_per_byte > message.seconds_per_byte) message.seconds_per_byte = link.seconds_per_byte;
}

}  // namespace detail

/// The costs of a mesh whose ranks are those of a machine in order, last axis fastest.
template <int Axes>
constexpr mesh_costs<Axes> costs_on(mesh_sizes<Axes> const& mesh, machine_description const& machine) {
  mesh_costs<Axes> out;
  if (machine.bytes_per_second > 0) out.packing = 2 / (machine.bytes_per_second * machine.speeds.maps);
  const int levels = machine.level_count();
  for (int set = 1; set < out.sets; ++set) {
    int below = 1;
    for (int level = 0; level < levels; ++level) {
      const int inside = machine.ranks_inside(level, mesh, static_cast<axis_set>(set));
      detail::add_level(out, set, machine.levels[level], below, inside);
      below = inside;
    }
  }
  return out;
}

/// The costs of a mesh each of whose axes has links of its own: axes are levels, the last one innermost.
template <int Axes>
constexpr mesh_costs<Axes> costs_on(mesh_sizes<Axes> const& mesh, mesh_links<Axes> const& links) {
  mesh_costs<Axes> out;
  for (int set = 1; set < out.sets; ++set) {
    int below = 1;
    for (int a = Axes - 1; a >= 0; --a)
      if (set >> a & 1) {
        detail::add_level(out, set, link_level{.link = links.along[a]}, below, below * mesh[a]);
        below *= mesh[a];
      }
  }
  return out;
}

/// The costs of a mesh on a machine of either kind.
template <device_mesh Mesh, class Machine>
inline constexpr mesh_costs<Mesh::axes> costs_of = [] {
  if constexpr (described_machine<Machine>)
    return costs_on(Mesh::value, description_of<Machine>);
  else
    return costs_on(Mesh::value, links_of<Mesh, Machine>);
}();

/// The cost of a step of a route for a tensor: its latency, and seconds for each byte OF THE WHOLE TENSOR, all devices
/// together, so that a step of B bytes takes `latency + seconds_per_byte * B`. Cuts are taken for even.
template <int Axes>
constexpr link_cost cost_of_step(mesh_sizes<Axes> const& mesh, mesh_costs<Axes> const& costs, step<Axes> const& s) {
  const axis_set group = mesh.cutting(s.group);
  const auto part_of = [](link_cost const& by, double share, int times = 1) {
    return link_cost{times * by.latency, times * by.seconds_per_byte * share};
  };
  const auto packed = [&](link_cost cost, double share) {
    bool lies_apart = false;
    for (int a = 0; a < Axes; ++a)
      if ((group >> a & 1) != 0)
        lies_apart =
            lies_apart || (s.from[a].is_shard() && s.from[a].dim != 0) || (s.to[a].is_shard() && s.to[a].dim != 0);
    if (lies_apart) cost.seconds_per_byte += costs.packing * share;
    return cost;
  };
  switch (group == 0 ? step_kind::none : s.kind) {
    case step_kind::all_gather: {
      const double share = detail::share(mesh, s.to);
      return packed(part_of(costs.gather[group], share), share);
    }
    case step_kind::reduce_scatter: {
      // Axes that cut on its way have left each rank less to start from.
      const double share = mesh.group_size(group) * detail::share(mesh, s.to);
      return packed(part_of(costs.gather[group], share), share);
    }
    case step_kind::all_reduce: return part_of(costs.gather[group], detail::share(mesh, s.from), 2);
    case step_kind::exchange: {
      // One over a whole number, however it is found.
      const double common = detail::shared(mesh, s.from, s.to);
      const double share = detail::share(mesh, s.to) - (common > 0 ? 1.0 / static_cast<int>(1 / common + 0.5) : 0);
      return packed(part_of(costs.exchange[group], share), share);
    }
    case step_kind::slice:
    case step_kind::none: break;
  }
  return {};
}

/// The same for a route, whose steps come one after the other.
template <int Axes>
constexpr link_cost cost_of_route(mesh_sizes<Axes> const& mesh, mesh_costs<Axes> const& costs, route<Axes> const& r) {
  link_cost sum;
  for (auto const& s : r) {
    const link_cost one = cost_of_step(mesh, costs, s);
    sum.latency += one.latency;
    sum.seconds_per_byte += one.seconds_per_byte;
  }
  return sum;
}

/// Seconds of so many bytes.
constexpr double seconds_of(link_cost const& cost, double bytes) {
  return cost.latency + cost.seconds_per_byte * bytes;
}

}  // namespace tessera
