#include "support/errors.hpp"

#include <tessera/layer/activation.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/explain_search.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace searched {

using namespace tessera;

struct dp : axis<2> {};
struct tp : axis<2> {};
using world = mesh<dp, tp>;

struct boards {
  static constexpr machine_description about{
      .peak = {.float64 = 0, .float32 = 1e10, .float16 = 0, .bfloat16 = 0},
      .bytes_per_second = 1e10,
      .memory = 1'000'000'000,
      .levels = {{.ranks = 0, .link = {.latency = 1e-7, .seconds_per_byte = 1e-9}, .name = "net"}}};
};

struct sums : chain<linear<48, 48>, residual<chain<linear<48, 96>, relu, linear<96, 48>>>, recompute<linear<48, 24>>,
                    residual<chain<linear<24, 16>>, linear<24, 16>>, linear<16, 8>> {};
template <class Model, class... Options>
using search = auto_parallel_search<Model, input<36, 48>, world, boards, Options...>;

/// The planner of a search, made by hand.
template <class Search>
planner<2> planner_of() {
  auto graph = graph_of<typename Search::problem, sums, shape<2>{{36, 48}}>(Search::copies);
  graph.loss_times = detail::loss_times<typename Search::problem, shape<2>{{36, 8}}>();
  return planner<2>(std::move(graph));
}
double seconds(search_time time) { return static_cast<double>(time) * 1e-12; }
bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

template <class Search>
void compare(index_t most) {
  const auto e = explain_search<Search>({}, {.plans = 4});
  REQUIRE(e.others);
  auto plans = planner_of<Search>();
  const auto best = plans.best_of(4, {.most_bytes = most});
  REQUIRE(e.others->plans.size() == best.size());
  for (std::size_t i = 0; i < best.size(); ++i) {
    CHECK(e.others->plans[i].seconds == seconds(best[i].time));
    CHECK(e.others->plans[i].bytes == best[i].bytes);
    CHECK(e.others->plans[i].bytes <= most);
  }
  CHECK(e.others->plans.front().seconds == Search::seconds);

  // Each layer, by name. The best plan is the one that was found, so that as much is lost.
  REQUIRE(e.others->runners_up.size() == 8);
  const auto others = plans.runners_up(best.front(), {.most_bytes = most});
  const std::vector<std::string> names{"0 linear<48, 48>",          "1.branch.0 linear<48, 96>", "1.branch.1 relu",
                                       "1.branch.2 linear<96, 48>", "2 linear<48, 24>",          "3.branch.0 linear<24, 16>",
                                       "3.shortcut linear<24, 16>", "4 linear<16, 8>"};
  REQUIRE(e.others->plans.front().changes.empty());
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto const& one = e.others->runners_up[i];
    CAPTURE(i);
    CHECK(one.path + ' ' + one.layer == names[i]);
    CHECK(one.other != one.split);
    REQUIRE(one.lost.has_value() == others[i].has_value());
    if (one.lost) CHECK(*one.lost == seconds(others[i]->time - best.front().time));
    if (one.lost) CHECK(*one.lost >= 0);
  }
}

}  // namespace searched

TEST_CASE("a search is explained with the next best way to cut each layer and the best plans") {
  using namespace searched;
  using free = search<sums>;
  compare<free>(std::numeric_limits<index_t>::max());
  constexpr index_t most = free::bytes * 9 / 10;
  compare<search<sums, memory_limit<most>>>(most);
}

TEST_CASE("what a search was compared with is in the table, the page and the JSON") {
  using namespace searched;
  const auto e = explain_search<search<sums>>();
  const auto json = nlohmann::json::parse(e.to_json().dump());
  auto const& runners = json["others"]["runners_up"];
  REQUIRE(runners.size() == e.others->runners_up.size());
  for (std::size_t i = 0; i < runners.size(); ++i) {
    auto const& one = e.others->runners_up[i];
    CHECK(runners[i]["path"].get<std::string>() == one.path);
    CHECK(runners[i]["lost_seconds"].is_null() == !one.lost);
    if (one.lost) CHECK(runners[i]["lost_seconds"].get<double>() == *one.lost);
    if (one.lost) CHECK(runners[i]["other"].get<std::string>() == one.other);
    if (one.lost) CHECK(has(e.table(), one.other + "  "));
  }
  REQUIRE(json["others"]["plans"].size() == 5);
  CHECK(json["others"]["plans"][4]["seconds"].get<double>() == e.others->plans[4].seconds);
  CHECK(json["others"]["plans"][4]["changes"].size() == e.others->plans[4].changes.size());
  CHECK(has(e.html(), "<h2>Runners-up</h2>"));
  CHECK(has(e.html(), "<h2>The best plans</h2>"));

  const auto alone = explain_search<search<sums>>({}, {.plans = 0, .runners_up = false});
  CHECK(alone.table() == explain<search<sums>::type, world, boards>().table());
  CHECK(!has(alone.html(), "<h2>The best plans</h2>"));
  CHECK(has(errors::error_of([] { explain_search<search<sums>>({}, {.plans = -1}); }), "-1 plans"));
}

TEST_CASE("a layer that can be cut in one way only has no runner-up") {
  using namespace searched;
  struct alone : axis<1> {};
  using whole = auto_parallel_search<chain<linear<48, 48>, relu>, input<36, 48>, mesh<alone>, boards>;
  const auto e = explain_search<whole>();
  REQUIRE(e.others->runners_up.size() == 2);
  for (auto const& one : e.others->runners_up) {
    CHECK(!one.lost);
    CHECK(one.other == "");
    CHECK(one.split == "whole");
  }
  CHECK(has(e.table(), "0      linear<48, 48>  whole  none"));
  CHECK(e.to_json()["others"]["runners_up"][0]["lost_seconds"].is_null());
  CHECK(e.others->plans.size() == 1);
}

TEST_CASE("axes that cut the same in another order are no other way") {
  using namespace searched;
  using rows = search<chain<linear<48, 48>, linear<48, 8>>, only<split_batch>>;
  const auto e = explain_search<rows>();
  for (auto const& one : e.others->runners_up) {
    CHECK((one.split == "batch dp*tp" || one.split == "batch tp*dp"));
    CHECK((one.other == "batch dp" || one.other == "batch tp"));
    CHECK(*one.lost > 0);
  }
}
