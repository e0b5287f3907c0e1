#pragma once

#include "support/layouts.hpp"

#include <tessera/redistribute/cost.hpp>

#include <algorithm>
#include <limits>
#include <vector>

/// What steps between layouts cost, worked out device by device from what each holds and wants, and the cheapest of all
/// sequences of steps: what planners are compared with. Shares no code with them.
namespace every_route {

using tessera::index_t;

/// What the device that has most to do receives, and how long that takes it.
struct traffic {
  bool possible = false;
  double elements = 0;
  double seconds = 0;
};

inline double rounds(int devices) {
  double n = 0;
  for (int reached = 1; reached < devices; reached *= 2) ++n;
  return n;
}

/// The traffic of one step: a slice or exchange where no partial value changes, or an all-gather instead of an exchange
/// where only cuts are undone; else a reduce-scatter or all-reduce.
template <int Axes, int Rank>
traffic of_step(tessera::mesh_sizes<Axes> const& mesh, tessera::mesh_links<Axes> const& net,
                tessera::shape<Rank> const& extents, tessera::placements<Axes> const& from,
                tessera::placements<Axes> const& to) {
  using tessera::axis_set;
  unsigned resolved = 0;
  unsigned left_whole = 0;
  unsigned gone = 0;
  bool gathers = true;
  bool mixed = false;
  tessera::reduction op = tessera::reduction::sum;
  for (int a = 0; a < Axes; ++a) {
    gathers = gathers && (to[a] == from[a] || (from[a].is_shard() && to[a].is_replicated()));
    if (from[a].is_shard() && to[a].is_replicated()) gone |= 1u << a;
    if (to[a].is_partial() && !(to[a] == from[a])) return {};
    if (from[a].is_partial() && !to[a].is_partial()) {
      mixed = mixed || (resolved != 0 && op != from[a].op);
      op = from[a].op;
      resolved |= 1u << a;
      if (to[a].is_replicated()) left_whole |= 1u << a;
    }
  }
  // A value that is partial in both ways is the maximum of sums: no maximum is taken before the sums.
  for (int a = 0; a < Axes; ++a)
    mixed = mixed || (resolved != 0 && op == tessera::reduction::maximum && from[a].is_partial() &&
                      from[a].op == tessera::reduction::sum);
  if (mixed || (left_whole != 0 && left_whole != resolved)) return {};
  const auto members = static_cast<axis_set>(resolved != 0 ? resolved : gone);
  const int group = mesh.group_size(members);
  double latency = 0;
  double per_element = 0;
  for (int a = 0; a < Axes; ++a)
    if ((members >> a & 1) != 0 && mesh[a] > 1) {
      latency = std::max(latency, net.along[a].latency);
      per_element = std::max(per_element, 4 * net.along[a].seconds_per_byte);
    }
  traffic most{true, 0, 0};
  double by_gathering = 0;
  for (int r = 0; r < mesh.devices(); ++r) {
    const auto at = mesh.coordinates(r);
    const auto held = local_box(mesh, from, extents, at);
    const auto wanted = local_box(mesh, to, extents, at);
    const index_t both = intersect(held, wanted).size();
    double elements = 0;
    double seconds = 0;
    if (resolved == 0) {
      elements = static_cast<double>(wanted.size() - both);
      // From the devices that share this one's place wherever `from` replicates or is partial.
      for (int other = 0; other < mesh.devices(); ++other) {
        const auto there = mesh.coordinates(other);
        bool partner = other != r;
        double slowest = 0;
        double longest = 0;
        for (int a = 0; a < Axes; ++a) {
          if (there[static_cast<std::size_t>(a)] == at[static_cast<std::size_t>(a)]) continue;
          partner = partner && from[a].is_shard();
          longest = std::max(longest, net.along[a].latency);
          slowest = std::max(slowest, 4 * net.along[a].seconds_per_byte);
        }
        const auto piece = static_cast<double>(intersect(local_box(mesh, from, extents, there), wanted).size());
        if (partner && piece > 0) seconds += longest + slowest * piece;
      }
      by_gathering = std::max(by_gathering, latency * rounds(group) + per_element * elements);
    } else if (left_whole != 0) {
      if (!(held == wanted)) return {};
      elements = 2.0 * static_cast<double>(held.size() - held.size() / group);
      seconds = 2 * latency * rounds(group) + per_element * elements;
    } else {
      if (both != wanted.size()) return {};
      for (int m = 0; m < group; ++m)
        elements += static_cast<double>(local_box(mesh, to, extents, mesh.group_member(members, at, m)).size());
      elements -= static_cast<double>(wanted.size());
      seconds = latency * rounds(group) + per_element * elements;
    }
    most.elements = std::max(most.elements, elements);
    most.seconds = std::max(most.seconds, seconds);
  }
  if (gathers && gone != 0) most.seconds = std::min(most.seconds, by_gathering);
  if (group == 1 && resolved != 0) most.seconds = 0;
  return most;
}

/// The costs of all single steps between some layouts, row by row; infinite where no single step leads.
template <int Axes, int Rank, class Cost>
std::vector<double> step_costs(tessera::mesh_sizes<Axes> const& mesh, tessera::mesh_links<Axes> const& net,
                               tessera::shape<Rank> const& extents, std::vector<tessera::placements<Axes>> const& all,
                               Cost cost) {
  std::vector<double> costs(all.size() * all.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size(); ++j)
      if (const traffic t = of_step(mesh, net, extents, all[i], all[j]); t.possible)
        costs[i * all.size() + j] = i == j ? 0 : cost(t);
  return costs;
}

/// Least cost from one layout to each of the others by any sequence of steps (Bellman and Ford). `allowed(i)` says
/// whether a layout may be on the way.
template <class Allowed>
std::vector<double> least_costs(std::vector<double> const& costs, std::size_t layouts, std::size_t from,
                                Allowed allowed) {
  std::vector<double> least(layouts, std::numeric_limits<double>::infinity());
  least[from] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < layouts; ++i) {
      if (least[i] == std::numeric_limits<double>::infinity() || !allowed(i)) continue;
      for (std::size_t j = 0; j < layouts; ++j)
        if (const double by_i = least[i] + costs[i * layouts + j]; by_i < least[j] - 1e-12) {
          least[j] = by_i;
          changed = true;
        }
    }
  }
  return least;
}

}  // namespace every_route
