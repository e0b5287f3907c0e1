#pragma once

#include <tessera/core/error.hpp>
#include <tessera/redistribute/cost.hpp>
#include <tessera/redistribute/route.hpp>

#include <vector>

namespace tessera {

namespace detail {

/// All layouts that may lie on a cheapest route, `to` and `from` first.
template <int Axes>
constexpr std::vector<placements<Axes>> layouts_between(mesh_sizes<Axes> const& mesh, placements<Axes> const& from,
                                                        placements<Axes> const& to, int rank) {
  std::vector<placements<Axes>> all(1);
  for (int a = 0; a < Axes; ++a) {
    std::vector<placements<Axes>> longer;
    const bool stays = from[a].is_partial() && to[a] == from[a];
    for (placements<Axes> layout : all) {
      layout[a] = from[a].is_partial() ? from[a] : replicated_placement();
      longer.push_back(layout);
      if (stays) continue;
      if (from[a].is_partial()) {
        layout[a] = replicated_placement();
        longer.push_back(layout);
      }
      // Axes of one device cut nothing: only where they must end up does it matter how.
      for (int d = 0; d < rank; ++d)
        for (int order = 0; order <= layout.cuts(d); ++order) {
          if (mesh[a] == 1 && !from[a].is_shard(d) && !to[a].is_shard(d)) continue;
          placements<Axes> cut = layout;
          for (int b = 0; b < a; ++b)
            if (cut[b].is_shard(d) && cut[b].order >= order) ++cut[b].order;
          cut[a] = shard_placement(d, order);
          longer.push_back(cut);
        }
    }
    all = longer;
  }
  std::vector<placements<Axes>> valid{from};
  if (!(from == to)) valid.push_back(to);
  for (auto const& layout : all)
    if (!(layout == from) && !(layout == to) && can_reach(from, layout) && can_reach(layout, to))
      valid.push_back(layout);
  return valid;
}

/// The cheapest single step; an all-gather may also be done as an exchange, whose messages take only the links between
/// the two devices.
template <int Axes, int Rank>
constexpr step<Axes> cheapest_step(mesh_sizes<Axes> const& mesh, mesh_links<Axes> const& net,
                                   shape<Rank> const& extents, index_t element_bytes, placements<Axes> const& from,
                                   placements<Axes> const& to, double& seconds) {
  step<Axes> s = one_step(from, to);
  seconds = cost_of(mesh, net, extents, element_bytes, s).seconds;
  if (s.kind == step_kind::all_gather) {
    step<Axes> apart = s;
    apart.kind = step_kind::exchange;
    const double by_pieces = cost_of(mesh, net, extents, element_bytes, apart).seconds;
    if (by_pieces < seconds) {
      seconds = by_pieces;
      s = apart;
    }
  }
  return s;
}

}  // namespace detail

/// The steps from one layout to another that take the least time on a network, of all sequences of steps; of equal ones
/// that with the fewest steps. For tensors of known extents, cut evenly or not.
///
/// Searches all layouts on the way (E. W. Dijkstra, Numerische Mathematik 1, 1959). `find_route` answers without a
/// search for tensors so large that latency does not matter.
template <int Axes, int Rank>
constexpr route<Axes> cheapest_route(mesh_sizes<Axes> const& mesh, mesh_links<Axes> const& net,
                                     shape<Rank> const& extents, index_t element_bytes, placements<Axes> const& from,
                                     placements<Axes> const& to) {
  if (!can_reach(from, to))
    throw error("a change to a layout that is partial where the tensor is not",
                "a layout that is partial along no axis, or along those the tensor is partial along",
                "name shards in the target layout, or nothing to replicate");
  const std::vector<placements<Axes>> all = detail::layouts_between(mesh, from, to, Rank);
  struct place {
    double seconds = 0;
    int steps = 0;
    std::size_t before = 0;
    step<Axes> by{};
    bool reached = false;
    bool done = false;
  };
  std::vector<place> at(all.size());
  std::size_t here = 0;
  at[0].reached = true;
  // No rest of a route is quicker than what its busiest device lacks, in one message over the best link.
  link_cost best;
  bool any = false;
  for (int a = 0; a < Axes; ++a) {
    if (mesh[a] == 1) continue;
    if (!any || net.along[a].latency < best.latency) best.latency = net.along[a].latency;
    if (!any || net.along[a].seconds_per_byte < best.seconds_per_byte)
      best.seconds_per_byte = net.along[a].seconds_per_byte;
    any = true;
  }
  std::vector<double> rest(all.size(), -1);
  const auto least_rest = [&](std::size_t i) {
    if (rest[i] < 0) {
      const index_t lacking = lacking_elements(mesh, extents, all[i], to);
      rest[i] = lacking == 0 ? 0 : best.latency + best.seconds_per_byte * static_cast<double>(lacking * element_bytes);
    }
    return rest[i];
  };
  double known = seconds_of(mesh, net, extents, element_bytes, find_route(mesh, from, to, Rank));
  const auto sooner = [](double a, int steps_a, double b, int steps_b) {
    const double slack = 1e-9 * (a > b ? a : b);
    return a < b - slack || (a < b + slack && steps_a < steps_b);
  };
  while (!(all[here] == to)) {
    at[here].done = true;
    for (std::size_t next = 0; next < all.size(); ++next) {
      if (at[next].done || !can_reach(all[here], all[next])) continue;
      if (at[here].seconds + least_rest(next) > known * (1 + 1e-9)) continue;
      double seconds = 0;
      const step<Axes> s = detail::cheapest_step(mesh, net, extents, element_bytes, all[here], all[next], seconds);
      if (s.kind == step_kind::none) continue;
      seconds += at[here].seconds;
      const int steps = at[here].steps + (s.kind == step_kind::slice ? 0 : 1);
      if (at[next].reached && !sooner(seconds, steps, at[next].seconds, at[next].steps)) continue;
      at[next] = {seconds, steps, here, s, true, false};
      if (next == 1 && seconds < known) known = seconds;
    }
    std::size_t nearest = all.size();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (at[i].reached && !at[i].done &&
          (nearest == all.size() || sooner(at[i].seconds, at[i].steps, at[nearest].seconds, at[nearest].steps)))
        nearest = i;
    here = nearest;
  }
  route<Axes> backwards;
  for (; here != 0; here = at[here].before) backwards.add(at[here].by);
  route<Axes> r;
  for (int i = backwards.count - 1; i >= 0; --i) r.add(backwards.steps[i]);
  return r;
}

}  // namespace tessera
