#include <tessera/plan/search/route_costs.hpp>

#include <doctest/doctest.h>

#include <cmath>

// What routes cost by arithmetic on places, against the routes themselves.

namespace {

using namespace tessera;

/// Costs of each group of axes that no other group has, so that a wrong step shows.
template <int Axes>
mesh_costs<Axes> distinct_costs() {
  mesh_costs<Axes> costs;
  unsigned state = 1;
  const auto next = [&] {
    state = state * 1664525 + 1013904223;
    return 1 + static_cast<double>(state >> 22) / 777;
  };
  for (int set = 1; set < 1 << Axes; ++set) {
    costs.gather[set] = {next(), next()};
    costs.exchange[set] = {next(), next()};
    costs.bucket[set] = {next(), next()};
    costs.message[set] = {next(), next()};
  }
  costs.packing = 0.3137;
  return costs;
}

/// But for roundings of a compiler that contracts products and sums.
bool close(double found, double wanted) { return std::abs(found - wanted) <= 1e-13 * wanted; }

template <int Axes>
void compare_routes(mesh_sizes<Axes> const& mesh, int rank) {
  CAPTURE(Axes);
  CAPTURE(rank);
  const auto costs = distinct_costs<Axes>();
  const detail::route_pricer<Axes> pricer(mesh, costs);
  const auto values = all_edges(mesh, rank, false, true);
  for (const edge_code from : values)
    for (const edge_code to : values) {
      const auto source = layout_of_edge<Axes>(from);
      const auto target = layout_of_edge<Axes>(to);
      // No route makes a partial sum of a value that is none.
      if (!can_reach(source, target)) continue;
      const link_cost wanted = cost_of_route(mesh, costs, find_route(mesh, source, target, rank));
      const link_cost found = pricer.cost(detail::cut_places<Axes>(from), detail::cut_places<Axes>(to), rank);
      CAPTURE(from);
      CAPTURE(to);
      REQUIRE(close(found.latency, wanted.latency));
      REQUIRE(close(found.seconds_per_byte, wanted.seconds_per_byte));
    }
}

}  // namespace

TEST_CASE("routes cost by places what their steps cost") {
  for (int rank = 1; rank <= 5; ++rank) {
    compare_routes(mesh_sizes<1>{{3}}, rank);
    compare_routes(mesh_sizes<2>{{2, 4}}, rank);
    compare_routes(mesh_sizes<2>{{3, 7}}, rank);
    compare_routes(mesh_sizes<3>{{2, 2, 2}}, rank);
    compare_routes(mesh_sizes<3>{{3, 5, 2}}, rank);
    compare_routes(mesh_sizes<3>{{4, 1, 3}}, rank);
  }
  for (int rank = 1; rank <= 2; ++rank) compare_routes(mesh_sizes<4>{{2, 3, 2, 4}}, rank);
}
