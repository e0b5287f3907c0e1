#include "support/every_route.hpp"

#include <tessera/redistribute/search.hpp>

#include <doctest/doctest.h>

namespace {

using namespace tessera;
using tessera::index_t;

/// No sequence of steps between any two layouts takes less time than the route that is found.
template <int Axes, int Rank>
void check_cheapest(mesh_sizes<Axes> const& mesh, mesh_links<Axes> const& net, shape<Rank> const& extents) {
  CAPTURE(to_string(extents));
  CAPTURE(net.along[0].latency);
  const auto all = layouts::all<Axes>(Rank);
  const auto costs =
      every_route::step_costs(mesh, net, extents, all, [](every_route::traffic const& t) { return t.seconds; });
  int dearer = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto least = every_route::least_costs(costs, all.size(), i, [](std::size_t) { return true; });
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (!can_reach(all[i], all[j])) continue;
      placements<Axes> here = all[i];
      const auto route = cheapest_route(mesh, net, extents, 4, all[i], all[j]);
      for (auto const& s : route) {
        REQUIRE(s.from == here);
        here = s.to;
      }
      REQUIRE(here == all[j]);
      const double seconds = seconds_of(mesh, net, extents, 4, route);
      if (seconds > least[j] * (1 + 1e-6) && ++dearer <= 10)
        MESSAGE(layouts::text(all[i]), " to ", layouts::text(all[j]), ": ", seconds, " instead of ", least[j]);
      // What is said to be cheapest must also be possible in that time.
      CHECK(seconds > least[j] * (1 - 1e-6) - 1e-15);
    }
  }
  CHECK(dearer == 0);
}

constexpr link_cost prompt{1e-9, 1e-8};  // bytes matter
constexpr link_cost slow{1e-5, 1e-9};    // messages matter
constexpr link_cost both{1e-6, 1e-7};

template <int Axes, int Rank>
void check_networks(mesh_sizes<Axes> const& mesh, shape<Rank> const& extents) {
  for (const link_cost every : {prompt, slow, both}) check_cheapest(mesh, uniform_links<Axes>(every), extents);
  mesh_links<Axes> levels = uniform_links<Axes>(prompt);
  levels.along[0] = {1e-6, 1e-7};
  check_cheapest(mesh, levels, extents);
  levels.along[0] = {1e-10, 1e-9};
  check_cheapest(mesh, levels, extents);
}

}  // namespace

TEST_CASE("no sequence of steps takes less time, cut evenly or not") {
  check_networks<1, 2>({{8}}, {{8, 16}});
  check_networks<1, 2>({{8}}, {{5, 1}});
  check_networks<2, 2>({{2, 4}}, {{16, 8}});
  check_networks<2, 2>({{2, 4}}, {{7, 3}});
  check_networks<2, 2>({{3, 2}}, {{5, 0}});
  check_networks<2, 1>({{4, 2}}, {{11}});
}

TEST_CASE("no sequence of steps on a larger tensor or mesh takes less time") {
  check_networks<2, 3>({{2, 2}}, {{4, 3, 5}});
  check_networks<3, 1>({{2, 2, 2}}, {{9}});
}
