#include <tessera/plan/auto_parallel.hpp>

#include <tessera/layer/activation.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/machines/ascend_910_server.hpp>
#include <tessera/plan/priced_layers.hpp>
#include <tessera/plan/search/planner.hpp>

#include <doctest/doctest.h>

#include <cmath>

// What the search finds while compiling is as good as what the planner finds at run time, which is compared with all
// combinations of choices (tests/mpi/plan/planner.cpp); and its time is that of the model it makes, priced layer by layer.

namespace {

using namespace tessera;
using tessera::index_t;

struct two : axis<2> {};
struct four : axis<4> {};
using line = mesh<four>;
using grid = mesh<two, four>;

/// Slow devices on fast links, where splits of all kinds pay.
struct close_by {
  static constexpr machine_description about{.peak = {0, 1e9, 0, 0},
                                             .bytes_per_second = 1e9,
                                             .memory = index_t{1} << 34,
                                             .launch = 1e-7,
                                             .levels = {{2, {1e-6, 1e-9}, "near"}, {0, {3e-6, 4e-9}, "far"}}};
};
/// Slow devices on links that cost next to nothing.
struct slow_devices {
  static constexpr machine_description about{.peak = {1e8, 1e8, 0, 0},
                                             .bytes_per_second = 1e8,
                                             .memory = index_t{1} << 34,
                                             .launch = 1e-9,
                                             .levels = {{0, {1e-7, 1e-11}, "links"}}};
};
/// Fast devices on slow links.
struct far_apart {
  static constexpr machine_description about{.peak = {0, 1e12, 0, 0},
                                             .half = 1e6,
                                             .bytes_per_second = 1e11,
                                             .memory = index_t{1} << 34,
                                             .launch = 1e-6,
                                             .levels = {{0, {1e-5, 1e-8}, "links"}}};
};

/// An optimizer that remembers a value of each parameter.
struct remembers {
  static constexpr index_t values_per_element() { return 1; }
};

template <class Search, class Model, class Input>
auto planner_of() {
  using problem = typename Search::problem;
  auto graph = graph_of<problem, Model, Input::extents>(remembers::values_per_element());
  constexpr auto output = detail::after_node<detail::bare<Model>, Input::extents>::extents;
  graph.loss_times = detail::loss_times<problem, output>();
  return planner<problem::mesh::axes>(std::move(graph));
}

/// The time of what was found is that of the model it makes.
template <class Search, class Mesh>
void compare_price() {
  using found = plan<typename Search::type, Mesh>;
  const double priced = price_layers<typename found::bound>(Search::problem::machine, Search::problem::costs, {},
                                                            found::loss_layout, false, true)
                            .additive();
  constexpr auto output = found::output::extents;
  const search_time loss = detail::loss_time<typename Search::problem, output>(edge_of(dual(found::loss_layout)));
  // Each of some hundred costs is rounded to a picosecond.
  CHECK(std::abs(priced + static_cast<double>(loss) * 1e-12 - Search::seconds) < 5e-10);
}
template <class Model, class Input, class Mesh, class Machine>
void compare() {
  using search = auto_parallel_search<Model, Input, Mesh, Machine>;
  CHECK(search::time == planner_of<search, Model, Input>().best().time);
  compare_price<search, Mesh>();
}
/// The same under limits of so many percent of what the best plan of all keeps.
template <class Model, class Input, class Mesh, class Machine, int... Percents>
void compare_within() {
  using all = auto_parallel_search<Model, Input, Mesh, Machine, memory_limit<(index_t{1} << 40), remembers>>;
  auto at_run_time = planner_of<all, Model, Input>();
  CHECK(all::bytes == at_run_time.best().bytes);
  const auto one = [&]<int Percent>(std::integral_constant<int, Percent>) {
    constexpr index_t most = all::bytes * Percent / 100;
    CAPTURE(Percent);
    CAPTURE(most);
    CAPTURE(at_run_time.smallest().bytes);
    using search = auto_parallel_search<Model, Input, Mesh, Machine, memory_limit<most, remembers>>;
    const auto best = at_run_time.best({.most_bytes = most});
    CHECK(search::time == best.time);
    CHECK(search::time > all::time);
    CHECK(search::bytes <= most);
    compare_price<search, Mesh>();
  };
  (one(std::integral_constant<int, Percents>{}), ...);
}

/// Whether the links of an edge are what `link_between` says of each pair of ways to make a value and to take it.
template <class Mesh, class Machine, int Rank, int Forwards, int Backwards>
void compare_links() {
  using problem = search_problem<Mesh, Machine, float, detail::allow_all, 100>;
  using links = detail::edge_links<problem, Rank, Forwards, Backwards>;
  using places = typename links::places;
  for (int v = 0; v < places::value_count; ++v)
    for (int k = 0; k < links::takes; ++k) {
      const auto wanted = link_between(Mesh::value, problem::costs, Rank, places::values[v], places::taken[k],
                                       {Forwards, Backwards});
      const link_cost found = links::cost(v, k);
      REQUIRE(places::made[links::made(v, k)] == wanted.made);
      REQUIRE(std::abs(found.latency - wanted.cost.latency) < 1e-15);
      REQUIRE(std::abs(found.seconds_per_byte - wanted.cost.seconds_per_byte) < 1e-21);
    }
}

struct mlp : chain<linear<48, 96>, gelu, linear<96, 40>, relu, linear<40, 8>> {};
struct sums : chain<linear<24, 24>, residual<chain<linear<24, 24>, relu>>,
                    residual<chain<linear<24, 16>, relu>, chain<linear<24, 16>>>,
                    residual<chain<linear<16, 16>>, linear<16, 16>>> {};
struct first_sums : chain<residual<chain<linear<24, 24>, relu>>, residual<linear<24, 24>, linear<24, 24>>> {};
/// Where a word before the residual is worth its route.
struct words_before : chain<linear<24, 24>, residual<chain<relu>, chain<layout<>>>> {};
struct images : chain<conv2d<3, 8, window<3, 1, 1>>, batch_norm2d<8>, relu, max_pool2d<window<2, 2>>,
                      recompute<model::residual_block<8>>, global_avg_pool<>> {};
struct words : chain<recompute<model::encoder_block<32, 4, 64>>, model::encoder_block<32, 4, 64>,
                     model::encoder_block<32, 4, 64>> {};

struct table;
struct tied_words : chain<embedding<64, 16, tied<table>>, linear<16, 48>, relu, linear<48, 16>,
                          linear<16, 64, no_bias, tied<table>>> {};
struct encoder : model::encoder_block<32, 4, 64> {};
struct recomputed : chain<model::encoder_block<32, 4, 64>, recompute<model::encoder_block<32, 4, 64>>> {};
using small_grid = mesh<two, axis<2>>;

}  // namespace

TEST_CASE("a plan found while compiling takes as long as the best at run time") {
  compare<mlp, input<6, 4, 48>, grid, close_by>();
  compare<mlp, input<6, 4, 48>, grid, far_apart>();
  compare<sums, input<16, 2, 24>, line, close_by>();
  compare<sums, input<16, 2, 24>, line, far_apart>();
  compare<sums, input<16, 2, 24>, grid, close_by>();
  compare<words_before, input<5, 2, 24>, line, slow_devices>();
  compare<first_sums, input<5, 3, 24>, line, close_by>();
  compare<first_sums, input<5, 3, 24>, line, far_apart>();
  compare<images, input<4, 3, 16, 16>, line, close_by>();
  compare<images, input<4, 3, 16, 16>, line, far_apart>();
  compare<words, input<8, 12, 32>, grid, close_by>();
}

TEST_CASE("a plan found while compiling under a memory limit takes as long as the best that fits at run time") {
  compare_within<mlp, input<64, 1, 48>, grid, close_by, 95, 80, 70>();
  compare_within<mlp, input<64, 48>, line, far_apart, 80, 50>();
  compare_within<sums, input<16, 2, 24>, line, close_by, 90, 70>();
  compare_within<first_sums, input<5, 3, 24>, line, far_apart, 90, 60>();
  compare_within<encoder, input<8, 12, 32>, line, close_by, 80, 60>();
  compare_within<encoder, input<8, 12, 32>, small_grid, close_by, 90, 80>();
  compare_within<images, input<4, 3, 16, 16>, line, close_by, 90, 78>();
  compare_within<recomputed, input<8, 12, 32>, line, close_by, 80>();
  compare_within<model::resnet_small<10>, input<64, 1, 28, 28>, line, close_by, 95>();
  compare_within<tied_words, input<8, 12>, line, close_by, 90, 70>();
}

TEST_CASE("tables of links have the routes of values and of their gradients") {
  compare_links<grid, close_by, 2, 1, 1>();
  compare_links<grid, far_apart, 3, 2, 1>();
  compare_links<line, close_by, 4, 1, 0>();
}
