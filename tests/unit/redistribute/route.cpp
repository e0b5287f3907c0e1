#include "support/every_route.hpp"

#include <tessera/redistribute/route.hpp>

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace tessera;
using tessera::index_t;

/// Every route between two layouts of an evenly cut tensor receives as little as the best of all sequences of steps
/// that leave whole what is whole before and after.
template <int Axes, int Rank>
void check_least(mesh_sizes<Axes> const& mesh, shape<Rank> const& extents,
                 std::vector<reduction> const& reductions = {reduction::sum}) {
  CAPTURE(to_string(extents));
  const auto all = layouts::all<Axes>(Rank, reductions);
  const auto costs = every_route::step_costs(mesh, mesh_links<Axes>{}, extents, all,
                                             [](every_route::traffic const& t) { return t.elements; });
  int dearer = 0;
  int through_all_reduce = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    // For each set of axes that replicate before and after: what is whole along these stays so on the way.
    std::array<std::vector<double>, std::size_t{1} << Axes> least_of{};
    for (std::size_t j = 0; j < all.size(); ++j) {
      if (!can_reach(all[i], all[j])) continue;
      const auto whole = static_cast<axis_set>(all[i].axes_of(placement_kind::replicated) &
                                               all[j].axes_of(placement_kind::replicated));
      auto& least = least_of[whole];
      if (least.empty())
        least = every_route::least_costs(costs, all.size(), i, [&](std::size_t k) {
          return (whole & ~all[k].axes_of(placement_kind::replicated)) == 0;
        });
      double received = 0;
      placements<Axes> here = all[i];
      for (auto const& s : find_route(mesh, all[i], all[j], Rank)) {
        const auto t = every_route::of_step(mesh, mesh_links<Axes>{}, extents, s.from, s.to);
        REQUIRE(s.from == here);
        REQUIRE(t.possible);
        received += t.elements;
        here = s.to;
        if (s.kind == step_kind::all_reduce)
          for (int a = 0; a < Axes; ++a) through_all_reduce += (s.group >> a & 1) != 0 && all[j][a].is_shard();
      }
      REQUIRE(here == all[j]);
      if (received > least[j] + 1e-6) {
        if (++dearer <= 10)
          MESSAGE(layouts::text(all[i]), " to ", layouts::text(all[j]), ": ", received, " instead of ", least[j]);
      }
    }
  }
  CHECK(dearer == 0);
  CHECK(through_all_reduce == 0);
}

}  // namespace

TEST_CASE("on one and two axes no sequence of steps receives less") {
  check_least<1, 2>({{8}}, {{8, 8}});
  check_least<1, 4>({{4}}, {{4, 4, 4, 4}});
  check_least<2, 2>({{2, 2}}, {{4, 4}});
  check_least<2, 2>({{2, 4}}, {{8, 8}});
  check_least<2, 3>({{4, 2}}, {{8, 8, 8}});
  check_least<2, 3>({{3, 2}}, {{6, 6, 6}});
  check_least<2, 4>({{2, 4}}, {{8, 8, 8, 8}});
}

TEST_CASE("on three axes no sequence of steps receives less") {
  check_least<3, 1>({{2, 2, 2}}, {{8}});
  check_least<3, 2>({{2, 2, 2}}, {{8, 8}});
  check_least<3, 2>({{2, 3, 4}}, {{24, 24}});
  check_least<3, 3>({{2, 2, 2}}, {{8, 8, 8}});
}

TEST_CASE("of sums and maxima together no sequence of steps receives less") {
  check_least<1, 2>({{4}}, {{4, 4}}, {reduction::sum, reduction::maximum});
  check_least<2, 2>({{2, 4}}, {{8, 8}}, {reduction::sum, reduction::maximum});
  check_least<3, 2>({{2, 2, 2}}, {{8, 8}}, {reduction::sum, reduction::maximum});
}

TEST_CASE("on four axes no sequence of steps receives less") { check_least<4, 1>({{2, 2, 2, 2}}, {{16}}); }
