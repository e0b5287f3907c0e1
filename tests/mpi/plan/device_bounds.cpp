#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/plan_devices.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

// What bounds a step from below, against simulated steps.

namespace {

using namespace tessera;
using tessera::index_t;

constexpr index_t plenty = index_t{1} << 40;
constexpr machine_description about{
    .peak = {.float64 = 0, .float32 = 1e12, .float16 = 0, .bfloat16 = 0},
    .bytes_per_second = 1e11,
    .memory = plenty,
    .levels = {{.ranks = 2, .link = {1e-6, 1e-10}, .name = "host"}, {.ranks = 0, .link = {4e-6, 1e-9}, .name = "net"}}};

struct block : chain<residual<chain<linear<64, 128>, relu, linear<128, 64>>>> {};
struct blocks : chain<linear<32, 64>, block, block, linear<64, 8>> {};
/// The first and the last layer share a weight, which is much of what a device has.
using language = tessera::model::gpt<1024, 4, 256, 4, 1>;

struct simulated {
  double seconds = 0;
  index_t bytes = 0;
};

/// Many plans of one stage, with and without limits of memory, against the bounds of all of them.
template <class Model, auto Extents>
void check_bounds(mesh_sizes<2> const& mesh, int level, bool recompute) {
  CAPTURE(level);
  CAPTURE(recompute);
  detail::cell_state<2> state;
  state.cell = {1, mesh, 1, 0};
  state.graph = detail::device_graph_builder<2>({mesh, about, 4, 1, Extents[0]}).template build<Model, Extents>();
  state.links = std::make_unique<detail::run_links<2>>(mesh, state.graph.costs);
  state.begins = {0, static_cast<int>(state.graph.nodes.back().parts.size())};
  const detail::device_terms terms{.level = level, .recompute = recompute, .remembered = 1};
  detail::stage_planner<2> planner(state, terms);
  const double least = planner.least_seconds();
  CHECK(least >= detail::bound_of(1, {state.least_of_stage(0)}));

  std::vector<detail::staged_plan<2>> plans = planner.candidates(8);
  const std::size_t free = plans.size();
  bool fits = true;
  plans.push_back(planner.limited({0}, 0, fits).value());
  CHECK(!fits);
  const index_t fewest = plans.back().plans.front().bytes;
  const index_t most = plans.front().plans.front().bytes;
  for (const int eighths : {2, 6}) {
    const index_t limit = fewest + (most - fewest) * eighths / 8;
    plans.push_back(planner.limited({limit}, 0, fits).value());
    CHECK(fits);
    const auto shortest = static_cast<double>(plans.back().plans.front().time);
    for (const double tolerance : {0.01, 0.2}) {
      plans.push_back(planner.limited({limit}, tolerance, fits).value());
      search_plan const& near = plans.back().plans.front();
      CHECK(near.bytes <= limit);
      CHECK(static_cast<double>(near.time) * (1 - tolerance) <= shortest * (1 + 1e-12));
    }
  }

  std::vector<simulated> steps;
  for (detail::staged_plan<2> const& plan : plans) {
    const auto wanted = layout_of_edge<2>(plan.plans[0].output);
    const auto stage = detail::plan_walk<2>(state.graph, plan.graphs[0], plan.sources[0], plan.plans[0], *state.links)
                           .of_passes(1)
                           .stage(wanted, dual(wanted), 0);
    const auto step = detail::simulate_stage(state.graph, stage, terms, {.remembered = 1}, 0, plenty);
    steps.push_back({step.price.total(), step.memory.total()});
    CHECK(steps.back().seconds >= least);
    CHECK(steps.back().seconds >= plan.bound);
  }
  // The limited ones, and the shortest.
  for (std::size_t i = 0; i < steps.size(); ++i) {
    simulated const& step = steps[i];
    if (i > 0 && i < free) continue;
    const double within = planner.least_seconds_within(step.bytes, 1);
    CHECK(within >= least);
    for (simulated const& other : steps)
      if (other.bytes <= step.bytes) CHECK(other.seconds >= within);
  }
  // Much less than any has is not to be had.
  CHECK(planner.least_seconds_within(fewest / 4, 1) > 1);
}

}  // namespace

TEST_CASE("no pipeline is shorter than its bounds") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> any(0, 1);
  for (int stages = 1; stages <= 6; ++stages)
    for (int parts = 1; parts <= 12; ++parts)
      for (int round = 0; round < 30; ++round) {
        CAPTURE(stages);
        CAPTURE(parts);
        const bool alike = round == 0;
        std::vector<step_price> prices(static_cast<std::size_t>(stages));
        std::vector<double> seconds;
        for (step_price& price : prices) {
          price.forward = alike ? 0.25 : any(random) * any(random);
          price.backward = alike ? 0.5 : any(random) * any(random);
          seconds.push_back(price.forward + price.backward);
        }
        const double step = detail::simulate_pipeline<one_forward_one_backward>(prices, parts).total();
        const double bound = detail::bound_of(parts, seconds);
        CHECK(bound <= step * (1 + 1e-9));
        CHECK(detail::bound_of(stages, parts, std::accumulate(seconds.begin(), seconds.end(), 0.0)) <=
              bound * (1 + 1e-9));
        if (alike) CHECK(bound == doctest::Approx(step).epsilon(1e-9));
      }
}

TEST_CASE("the bound of all stages together is that of those which share the work so that none is later") {
  for (const int stages : {1, 2, 5})
    for (const int parts : {1, 2, 8}) {
      // T[m] = (x - T[0] - ... - T[m - 1]) / parts.
      double together = 0;
      for (int m = 0; m < stages; ++m) together += (1 - together) / parts;
      CHECK(detail::bound_of(stages, parts, together) == doctest::Approx(1).epsilon(1e-12));
    }
}

TEST_CASE("no step is shorter than what bounds it, with a limit of memory and without") {
  for (const bool recompute : {false, true}) check_bounds<blocks, shape<2>{{64, 32}}>({{2, 2}}, 0, recompute);
  check_bounds<blocks, shape<2>{{64, 32}}>({{2, 2}}, 3, true);
  check_bounds<language, shape<2>{{2, 4}}>({{1, 2}}, 1, false);
}
