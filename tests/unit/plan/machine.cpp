#include <tessera/plan/fusion.hpp>
#include <tessera/plan/machines/ascend_910_server.hpp>
#include <tessera/plan/machines/ascend_910b_server.hpp>
#include <tessera/plan/machines/h100_server.hpp>
#include <tessera/plan/mesh_costs.hpp>
#include <tessera/redistribute/search.hpp>

#include <doctest/doctest.h>

#include <vector>

#include "support/errors.hpp"

// Machines as values: rates, levels of links on meshes, and the costs of collectives that follow.

namespace {

using namespace tessera;
using errors::error_of;
using tessera::index_t;

/// Two devices at 1 s and 0.25 s a byte with a link of their own, three such pairs at 10 s and 2 s a byte, all at 100 s
/// and 8 s a byte: powers of two, so that sums are exact.
struct pairs_and_boxes {
  static constexpr machine_description about{.peak = {.float64 = 0, .float32 = 1000, .float16 = 4000, .bfloat16 = 2000},
                                             .reachable = 0.5,
                                             .half = 100,
                                             .bytes_per_second = 10,
                                             .memory = 1000,
                                             .launch = 2,
                                             .levels = {{.ranks = 2, .link = {1, 0.25}, .name = "pair"},
                                                        {.ranks = 8, .link = {10, 2}, .name = "box", .pairs = true},
                                                        {.ranks = 0, .link = {100, 8}, .name = "net"}}};
};
constexpr machine_description const& about = pairs_and_boxes::about;

static_assert(described_machine<machine::ascend_910_server> && described_machine<machine::ascend_910b_server> &&
              described_machine<machine::h100_server> && described_machine<machine::shared_memory>);
static_assert(description_of<machine::ascend_910_server>.level_count() == 3);
static_assert(description_of<machine::ascend_910b_server>.level_count() == 2);
static_assert(description_of<machine::h100_server>.level_count() == 2);

struct dp : axis<2> {};
struct tp : axis<4> {};

constexpr bool same(link_cost const& found, double latency, double seconds_per_byte) {
  return found.latency == latency && found.seconds_per_byte == seconds_per_byte;
}

}  // namespace

TEST_CASE("a kernel takes the longer of the times of its operations and of its bytes, after its launch") {
  static_assert(about.seconds(400, 0, 4) == 2 + 500 / 500.0);  // half of the rate at 100 operations
  static_assert(about.seconds(100, 0, 4) == 2 + 200 / 500.0);
  static_assert(about.seconds(400, 50, 4) == 2 + 5);
  static_assert(about.seconds(0, 0, 4) == 2);
  static_assert(about.rate(4) == 500);
  static_assert(about.rate(2) == 2000);  // the faster of the formats of 16 bits
  CHECK(error_of([] { about.rate(8); }).find("choose another element type") != std::string::npos);
  CHECK(error_of([] { about.rate(1); }).find("choose another element type") != std::string::npos);
}

TEST_CASE("a group lies in the innermost level whose groups hold all of it, wherever it begins") {
  // Ranks 8 a + 2 b + c.
  constexpr mesh_sizes<3> mesh{{3, 4, 2}};
  constexpr axis_set a = 1, b = 2, c = 4;
  static_assert(about.ranks_inside(0, mesh, c) == 2);
  static_assert(about.ranks_inside(0, mesh, b) == 1);
  static_assert(about.ranks_inside(1, mesh, b) == 4);
  static_assert(about.ranks_inside(1, mesh, a) == 1);
  static_assert(about.ranks_inside(2, mesh, a) == 3);
  static_assert(about.ranks_inside(0, mesh, a | c) == 2);
  static_assert(about.ranks_inside(1, mesh, a | b | c) == 8);
  static_assert(about.ranks_inside(2, mesh, a | b | c) == 24);
  // Groups of 3 consecutive ranks straddle every box; of 6 consecutive ones two always share a pair.
  static_assert(about.ranks_inside(1, mesh_sizes<2>{{4, 3}}, 2) == 1);
  static_assert(about.ranks_inside(0, mesh_sizes<2>{{4, 6}}, 2) == 2);
  static_assert(about.ranks_inside(1, mesh_sizes<2>{{4, 6}}, 2) == 2);
  // Fewer ranks than a box holds are all in one.
  static_assert(about.ranks_inside(1, mesh_sizes<1>{{6}}, 1) == 6 && about.ranks_inside(1, mesh_sizes<1>{{7}}, 1) == 7);
  static_assert(about.ranks_inside(0, mesh_sizes<1>{{6}}, 1) == 2 && about.ranks_inside(0, mesh_sizes<1>{{7}}, 1) == 1);
  static_assert(about.ranks_inside(1, mesh_sizes<2>{{2, 3}}, 1) == 2 &&
                about.ranks_inside(1, mesh_sizes<2>{{2, 3}}, 2) == 3);
  static_assert(about.ranks_inside(1, mesh_sizes<1>{{12}}, 1) == 4);

  // Against counting the ranks of every group.
  const auto least_inside = [](auto const& mesh, axis_set axes, int ranks) {
    int least = mesh.group_size(axes);
    for (int r = 0; r < mesh.devices(); ++r) {
      int inside = 0;
      for (int m = 0; m < mesh.group_size(axes); ++m) {
        const auto member = mesh.group_member(axes, mesh.coordinates(r), m);
        inside += mesh.group_rank(static_cast<axis_set>(7), member) / ranks == r / ranks;
      }
      least = std::min(least, inside);
    }
    return least;
  };
  for (const int x : {1, 2, 4, 8})
    for (const int y : {1, 2, 4})
      for (const int z : {1, 2, 4, 16})
        for (unsigned set = 0; set < 8; ++set) {
          const mesh_sizes<3> sizes{{x, y, z}};
          const auto axes = static_cast<axis_set>(set);
          for (const int level : {0, 1})
            CHECK(about.ranks_inside(level, sizes, axes) == least_inside(sizes, axes, about.levels[level].ranks));
        }
}

TEST_CASE("axes of a mesh get the links of the outermost level that they cross") {
  using world = mesh<dp, tp>;  // rows of 4 in one box
  constexpr auto links = links_of<world, pairs_and_boxes>;
  static_assert(same(links.along[0], 10, 2));  // two ranks 4 apart
  static_assert(same(links.along[1], 10, 2));  // 2 in each pair, two pairs with a link for each two
  constexpr auto wide = links_of<mesh<tp, dp>, pairs_and_boxes>;
  static_assert(same(wide.along[0], 10, 2.0 / 3));  // hears from three others at once
  static_assert(same(wide.along[1], 1, 0.25));
  // A machine with `along` keeps its own.
  CHECK(links_of<world, machine::shared_memory>.along[0].latency == 1e-5);
  // And serves the search for routes.
  constexpr auto from = placements_of<world, layout<shard<0, tp>>>;
  constexpr auto r = cheapest_route(world::value, links, shape<2>{{8, 8}}, 4, from, placements<2>{});
  static_assert(r.count == 1);
}

TEST_CASE("collectives run level by level") {
  constexpr mesh_sizes<3> mesh{{3, 4, 2}};
  constexpr auto costs = costs_on(mesh, about);
  // In a pair: half of the whole at 0.25 s a byte, one round.
  static_assert(same(costs.gather[4], 1, 0.125));
  // Four with links of their own: a quarter from each of the others, all at once.
  static_assert(same(costs.gather[2], 10, 2 * 0.25));
  // A box: what a pair has joined already comes as one.
  static_assert(same(costs.gather[6], 11, 0.125 + 2 * 0.25 / 2));
  // Boxes: two rounds for three of them, two thirds of the whole.
  static_assert(costs.gather[1].latency == 200);
  CHECK(costs.gather[1].seconds_per_byte == doctest::Approx(16.0 / 3));
  CHECK(costs.gather[7].latency == 211);
  CHECK(costs.gather[7].seconds_per_byte == doctest::Approx(0.125 + 0.25 + 16.0 / 3 / 8));
  static_assert(same(costs.gather[0], 0, 0));

  // One message for each other rank, over the link between the two.
  static_assert(costs.exchange[7].latency == 1 + 6 * 10 + 16 * 100);
  static_assert(costs.exchange[7].seconds_per_byte == 8);
  static_assert(same(costs.exchange[4], 1, 0.25));
  static_assert(costs.exchange[2].latency == 30);
  CHECK(costs.exchange[2].seconds_per_byte == doctest::Approx(2.0 / 3));
  static_assert(same(costs.message[6], 10, 2));
  static_assert(same(costs.message[5], 100, 8));

  // Axes of one device cost nothing.
  constexpr auto flat = costs_on(mesh_sizes<2>{{1, 2}}, about);
  static_assert(same(flat.gather[1], 0, 0) && same(flat.gather[3], 1, 0.125));
}

TEST_CASE("a machine of one level has the costs of redistribute/cost.hpp") {
  constexpr mesh_sizes<2> mesh{{2, 4}};
  constexpr link_cost link{3, 0.5};
  constexpr machine_description flat{
      .peak = {}, .bytes_per_second = 1, .memory = 1, .levels = {{.ranks = 0, .link = link, .name = "net"}}};
  auto costs = costs_on(mesh, flat);
  costs.packing = 0;  // messages alone
  const auto net = uniform_links<2>(link);
  const shape<2> extents{{16, 24}};
  std::vector<placements<2>> layouts;
  const placement each[] = {replicated_placement(), shard_placement(0), shard_placement(1), partial_placement()};
  for (auto const& x : each)
    for (auto const& y : each) layouts.push_back(placements<2>{{x, y}}.normalized());
  int compared = 0;
  for (auto const& from : layouts)
    for (auto const& to : layouts) {
      if (!can_reach(from, to)) continue;
      for (auto const& s : find_route(mesh, from, to, 2)) {
        const double bytes = static_cast<double>(extents.size()) * 4;
        const double found = seconds_of(cost_of_step(mesh, costs, s), bytes);
        const step_cost wanted = cost_of(mesh, net, extents, 4, s);
        CAPTURE(to_string(s.kind));
        // An exchange may take fewer messages than one from each of the others.
        if (s.kind == step_kind::exchange) {
          CHECK(cost_of_step(mesh, costs, s).seconds_per_byte * bytes ==
                doctest::Approx(0.5 * 4 * static_cast<double>(wanted.received)));
          CHECK(found >= wanted.seconds * (1 - 1e-12));
        } else {
          CHECK(found == doctest::Approx(wanted.seconds));
        }
        ++compared;
      }
    }
  CHECK(compared > 80);
}

TEST_CASE("steps along another dimension than the first copy each byte of a block once") {
  // 10 bytes a second, maps at twice that: 2 / 20 seconds for each byte read and written.
  machine_description copies = about;
  copies.speeds.maps = 2;
  const auto costs = costs_on(mesh_sizes<1>{{4}}, copies);
  CHECK(costs.packing == 0.1);
  const placements<1> whole{};
  const placements<1> rows{{shard_placement(0)}};
  const placements<1> columns{{shard_placement(1)}};
  const placements<1> sums{{partial_placement()}};
  const auto per_byte = [&](placements<1> const& from, placements<1> const& to) {
    return cost_of_step(mesh_sizes<1>{{4}}, costs, one_step(from, to)).seconds_per_byte;
  };
  CHECK(per_byte(rows, whole) == costs.gather[1].seconds_per_byte);
  CHECK(per_byte(columns, whole) == doctest::Approx(costs.gather[1].seconds_per_byte + 0.1));
  CHECK(per_byte(sums, rows) == costs.gather[1].seconds_per_byte);
  CHECK(per_byte(sums, columns) == doctest::Approx(costs.gather[1].seconds_per_byte + 0.1));
  CHECK(per_byte(sums, whole) == 2 * costs.gather[1].seconds_per_byte);
  // Of what a rank receives, three quarters of its quarter.
  CHECK(per_byte(rows, columns) == doctest::Approx((costs.exchange[1].seconds_per_byte + 0.1) * 3 / 16));
}

TEST_CASE("kernels of a kind take their time by its speed, after the launch") {
  machine_description kinds = about;
  kinds.speeds = {.convolutions = 2, .functions = 0.5};
  CHECK(kinds.seconds(400, 0, 4, kernel_kind::convolution) == 2 + 0.5);
  CHECK(kinds.seconds(0, 50, 4, kernel_kind::function) == 2 + 10);
  CHECK(kinds.seconds(400, 50, 4) == 2 + 5);
  kinds.speeds.norms = 0;
  CHECK(fault_of(kinds) == machine_fault::rates);
}

TEST_CASE("the cost of a route is that of its steps") {
  constexpr mesh_sizes<2> mesh{{2, 4}};
  constexpr auto costs = costs_on(mesh, about);
  // A partial sum along the last axis, made a sum whose rows are cut: a quarter of three quarters of the whole.
  constexpr placements<2> partial{{replicated_placement(), partial_placement()}};
  constexpr placements<2> rows{{replicated_placement(), shard_placement(0)}};
  constexpr auto scatter = cost_of_route(mesh, costs, find_route(mesh, partial, rows, 2));
  static_assert(same(scatter, costs.gather[2].latency, costs.gather[2].seconds_per_byte));
  constexpr auto whole = cost_of_route(mesh, costs, find_route(mesh, partial, placements<2>{}, 2));
  static_assert(same(whole, 2 * costs.gather[2].latency, 2 * costs.gather[2].seconds_per_byte));
  static_assert(same(cost_of_route(mesh, costs, find_route(mesh, rows, rows, 2)), 0, 0));
  static_assert(same(cost_of_route(mesh, costs, find_route(mesh, placements<2>{}, rows, 2)), 0, 0));
  // Where another axis cuts already, half of the tensor is at stake.
  constexpr placements<2> of_half{{shard_placement(1), shard_placement(0)}};
  constexpr placements<2> half{{shard_placement(1), replicated_placement()}};
  constexpr auto gathered = cost_of_route(mesh, costs, find_route(mesh, of_half, half, 2));
  static_assert(same(gathered, costs.gather[2].latency, costs.gather[2].seconds_per_byte / 2));
}

TEST_CASE("the server of 8 Ascend 910 crosses HCCS, PCIe and RoCE as its ranks lie") {
  constexpr machine_description const& server = machine::ascend_910_server::about;
  constexpr auto costs = costs_on(mesh_sizes<3>{{2, 2, 4}}, server);
  constexpr double byte = 1e9;                                                        // seconds a byte as nanoseconds
  CHECK(costs.gather[4].seconds_per_byte * byte == doctest::Approx(1.0 / 30 / 4));    // three links at once
  CHECK(costs.gather[2].seconds_per_byte * byte == doctest::Approx(1.0 / 32 / 2));    // PCIe
  CHECK(costs.gather[1].seconds_per_byte * byte == doctest::Approx(1.0 / 12.5 / 2));  // RoCE
  CHECK(costs.gather[7].seconds_per_byte * byte ==
        doctest::Approx(1.0 / 30 / 4 + 1.0 / 32 / 2 / 4 + 1.0 / 12.5 / 2 / 8));
}

TEST_CASE("the 910B server gathers and reduces as fast as was measured, within a fifth") {
  // GB/s of all-gathers and all-reduces on 2, 4 and 8 devices.
  const double measured[3][2] = {{38, 18}, {64, 30}, {149, 72}};
  for (int i = 0; i < 3; ++i) {
    const auto costs = costs_on(mesh_sizes<1>{{2 << i}}, machine::ascend_910b_server::about);
    const double gathered = 1e-9 / costs.gather[1].seconds_per_byte;
    CHECK(gathered == doctest::Approx(measured[i][0]).epsilon(0.2));
    CHECK(gathered / 2 == doctest::Approx(measured[i][1]).epsilon(0.25));
  }
}

TEST_CASE("what is wrong with a description is found") {
  CHECK(fault_of(about) == machine_fault::none);
  auto m = about;
  m.peak.float32 = -1;
  CHECK(fault_of(m) == machine_fault::rates);
  m = about;
  m.reachable = 1.5;
  CHECK(fault_of(m) == machine_fault::rates);
  m = about;
  m.bytes_per_second = 0;
  CHECK(fault_of(m) == machine_fault::memory);
  m = about;
  m.levels[1].ranks = 3;
  CHECK(fault_of(m) == machine_fault::levels);
  m = about;
  m.levels[0].ranks = 0;
  CHECK(fault_of(m) == machine_fault::levels);
  m.levels[0].name[0] = 0;
  CHECK(fault_of(m) == machine_fault::levels);
  m = about;
  m.levels[2].link.latency = -1;
  CHECK(fault_of(m) == machine_fault::links);
}
