#pragma once

#include <tessera/layer/resolve.hpp>
#include <tessera/plan/mesh_costs.hpp>
#include <tessera/plan/search/edge.hpp>

namespace tessera {

/// How often the passes of a part of a model run in a step: forward twice where it is recomputed, backward not at all
/// before the first layer that learns.
struct pass_counts {
  int forward = 1;
  int backward = 1;
  friend constexpr bool operator==(pass_counts const&, pass_counts const&) = default;
};

/// What it costs to bring a value from the layout in which it was made to that in which it is taken, and its gradient
/// back: a latency, and seconds for each byte of the whole tensor.
struct edge_link {
  link_cost cost{};
  /// What its producer sees: the layout of the value, and where the gradient is handed back partial.
  edge_code made = 0;
};

/// The link from a value that is `made` in a layout to one that is `taken`.
///
/// The gradient is handed back as `gradient_for` says, by `find_route` as the value itself: what a bound chain does.
template <int Axes>
constexpr edge_link link_between(mesh_sizes<Axes> const& mesh, mesh_costs<Axes> const& costs, int rank, edge_code made,
                                 edge_code taken, pass_counts passes) {
  edge_link link;
  const placements<Axes> from = layout_of_edge<Axes>(made);
  const placements<Axes> to = layout_of_edge<Axes>(taken);
  const auto add = [&](placements<Axes> const& a, placements<Axes> const& b, int times) {
    if (times == 0 || a == b) return;
    const link_cost one = cost_of_route(mesh, costs, find_route(mesh, a, b, rank));
    link.cost.latency += times * one.latency;
    link.cost.seconds_per_byte += times * one.seconds_per_byte;
  };
  add(from, to, passes.forward);
  if (passes.backward == 0) {
    link.made = edge_of(from);
    return link;
  }
  const placements<Axes> gradient = gradient_of_edge<Axes>(taken);
  const placements<Axes> handed = gradient_for(from, gradient);
  add(gradient, handed, passes.backward);
  link.made = edge_of(from, static_cast<axis_set>(handed.partial_axes()));
  return link;
}

/// What a producer pays to make a gradient whole that comes back partial, unless it can use it as it is.
template <int Axes>
constexpr link_cost cost_of_partial_gradient(mesh_sizes<Axes> const& mesh, mesh_costs<Axes> const& costs, int rank,
                                             edge_code made) {
  const placements<Axes> from = gradient_of_edge<Axes>(made);
  const placements<Axes> to = dual(layout_of_edge<Axes>(made));
  if (from == to) return {};
  return cost_of_route(mesh, costs, find_route(mesh, from, to, rank));
}

}  // namespace tessera
