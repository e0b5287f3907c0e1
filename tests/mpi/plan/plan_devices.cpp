#include <tessera/layer/activation.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/machines/h100_server.hpp>
#include <tessera/plan/plan_devices.hpp>

#include "support/errors.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

// Plans for a number of devices, against steps of types, against the planner of one mesh, and against all combinations.

namespace {

using namespace tessera;
using tessera::index_t;

/// Products at a teraflop, 100 GB/s of memory; hosts of two devices, between which messages are slower.
constexpr machine_description hosts(double latency, index_t memory) {
  return {.peak = {.float64 = 0, .float32 = 1e12, .float16 = 0, .bfloat16 = 0},
          .bytes_per_second = 1e11,
          .memory = memory,
          .levels = {{.ranks = 2, .link = {latency, 1e-10}, .name = "host"},
                     {.ranks = 0, .link = {4 * latency, 1e-9}, .name = "net"}}};
}
constexpr index_t plenty = index_t{1} << 40;

struct block : chain<residual<chain<linear<64, 128>, relu, linear<128, 64>>>> {};
struct blocks : chain<linear<32, 64>, block, block, linear<64, 8>> {};
struct four
    : chain<linear<64, 64, no_bias>, linear<64, 64, no_bias>, linear<64, 64, no_bias>, linear<64, 64, no_bias>> {};
struct images : chain<conv2d<8, 16, window<3, 1, 1>, no_bias>, batch_norm2d<16>, relu,
                      residual<chain<conv2d<16, 16, window<3, 1, 1>>, batch_norm2d<16>>>, global_avg_pool<>> {};

device_plan plan_blocks(machine_description const& machine, device_request const& request) {
  return plan_devices<blocks, input<dynamic, 32>>(machine, request);
}

struct dp : axis<4> {};
struct pp : axis<2> {};
struct rows : axis<2> {};
struct columns : axis<4> {};

struct any_word {
  static constexpr bool allows(std::string_view) { return true; }
};
struct about_h100 {
  static constexpr machine_description about = machine::h100_server::about;
};
struct about_it {
  static constexpr machine_description about = hosts(1e-6, plenty);
};
struct eight : axis<8> {};
struct prompt_hosts {
  static constexpr machine_description about = hosts(0, plenty);
};

/// The graph of a model on a mesh that is known at run time, against that of a mesh type.
template <class Model, auto Extents>
void check_graph() {
  using world = mesh<rows, columns>;
  using problem = search_problem<world, about_h100, float, any_word, 100>;
  const search_graph<2> expected = graph_of<problem, Model, Extents>(1);
  const detail::device_setting<2> setting{world::value, about_h100::about, 4, 1, Extents[0]};
  const auto priced = detail::device_graph_builder<2>(setting).build<Model, Extents>();
  detail::device_part<2> part(priced, {.remembered = 1}, 0, static_cast<int>(priced.nodes.back().parts.size()));
  const search_graph<2> found = part.take();
  planner<2> one(expected);
  planner<2> two(found);
  REQUIRE(one.layers().size() == two.layers().size());
  for (std::size_t i = 0; i < one.layers().size(); ++i) {
    search_node const& a = one.graph().nodes[static_cast<std::size_t>(one.layers()[i].node)];
    search_node const& b = two.graph().nodes[static_cast<std::size_t>(two.layers()[i].node)];
    CAPTURE(a.name);
    CHECK(one.layers()[i].path == two.layers()[i].path);
    CHECK(a.cut_bytes == b.cut_bytes);
    CHECK(a.input.bytes == b.input.bytes);
    REQUIRE(a.ways.size() == b.ways.size());
    for (std::size_t w = 0; w < a.ways.size(); ++w) {
      CHECK(a.ways[w].taken == b.ways[w].taken);
      CHECK(a.ways[w].made == b.ways[w].made);
      CHECK(std::abs(a.ways[w].time - b.ways[w].time) <= 2);
    }
  }
  CHECK(std::abs(one.best().time - two.best().time) <= 4 * static_cast<search_time>(one.layers().size()));
  CHECK(one.smallest().bytes == two.smallest().bytes);
}

/// All ways to write a number as a product of one or two factors above 1, in order.
std::vector<std::vector<int>> meshes_of(int devices) {
  std::vector<std::vector<int>> all{{devices}};
  for (int a = 2; a < devices; ++a)
    if (devices % a == 0 && devices / a > 1) all.push_back({a, devices / a});
  return all;
}

std::optional<device_plan> plan_if_it_fits(machine_description const& machine, device_request const& request) {
  try {
    return plan_blocks(machine, request);
  } catch (error const&) {
    return std::nullopt;
  }
}

/// Every combination by itself.
double least_of_all(machine_description const& machine, device_request request) {
  double least = std::numeric_limits<double>::max();
  const int devices = request.devices;
  const bool recompute = request.recompute;
  for (const int stages : {1, 2, 4})
    for (const int parts : {1, 2, 4, 8})
      for (auto const& mesh : meshes_of(devices / stages))
        for (std::size_t level = 0; level < 4; ++level)
          for (const bool again : {false, true}) {
            if (devices % stages != 0 || parts > request.most_parts || (again && !recompute)) continue;
            request.stages = stages;
            request.parts = parts;
            request.mesh = mesh;
            request.levels = {false, false, false, false};
            request.levels[level] = true;
            request.recompute = again;
            if (const auto plan = plan_if_it_fits(machine, request)) least = std::min(least, plan->step.total());
          }
  return least;
}

/// The shortest step of any splits of a chain of layers, on one mesh, the whole batch at once: all are simulated.
template <class Model, auto Extents, int Axes>
double shortest_step(machine_description const& machine, mesh_sizes<Axes> const& mesh) {
  const auto priced =
      detail::device_graph_builder<Axes>({mesh, machine, 4, 1, Extents[0]}).template build<Model, Extents>();
  detail::run_links<Axes> links(mesh, priced.costs);
  double least = std::numeric_limits<double>::max();
  for (int level = 0; level < 4; ++level) {
    const detail::device_terms terms{.level = level, .remembered = 1};
    detail::device_part<Axes> part(priced, terms, 0, static_cast<int>(priced.nodes.back().parts.size()));
    const std::vector<int> sources = part.sources();
    const search_graph<Axes> graph = part.take();
    std::vector<int> const& layers = graph.root().parts;
    search_plan plan;
    plan.cuts.resize(layers.size());
    plan.recomputed.resize(layers.size());
    const auto each_plan = [&](auto const& self, std::size_t layer) -> void {
      if (layer < layers.size()) {
        search_node const& n = graph.nodes[static_cast<std::size_t>(layers[layer])];
        for (std::size_t cut = 0; cut < n.cuts.size(); ++cut) {
          plan.cuts[layer] = static_cast<int>(cut);
          self(self, layer + 1);
        }
        return;
      }
      auto const& first = priced.facts[static_cast<std::size_t>(sources[static_cast<std::size_t>(layers.front())])];
      plan.input = edge_of(first.cuts[static_cast<std::size_t>(plan.cuts.front())].resolved.operand[0]);
      for (const edge_code output : all_edges(mesh, graph.root().output.rank, false, true)) {
        const auto wanted = layout_of_edge<Axes>(output);
        if (wanted.axes_of(placement_kind::partial) != 0) continue;
        const auto stage = detail::plan_walk<Axes>(priced, graph, sources, plan, links).stage(wanted, dual(wanted), 0);
        least =
            std::min(least, detail::simulate_stage(priced, stage, terms, {.remembered = 1}, 0, plenty).price.total());
      }
    };
    each_plan(each_plan, 0);
  }
  return least;
}

}  // namespace

TEST_CASE("graphs of meshes that are known at run time are those of mesh types") {
  check_graph<blocks, shape<2>{{64, 32}}>();
  check_graph<images, shape<4>{{16, 8, 8, 8}}>();
}

TEST_CASE("a step of data parallelism is that of the type") {
  // Links so slow that nothing but gradients of small weights is sent, and many rows.
  constexpr machine_description machine = hosts(1e-6, plenty);
  const device_plan plan = plan_devices<four, input<dynamic, 64>, 1>(
      machine, {.devices = 4, .batch = 65536, .most_stages = 1, .levels = {true, false, false, false}});
  for (planned_cut const& layer : plan.layers) CHECK(layer.words == std::vector<std::string>{"batch"});
  const step_settings settings{.unknown = 65536, .remembered = 1};
  const auto step = [&]<class Fusion>(Fusion) {
    return price_step<parallel<four, input<dynamic, 64>, data_parallel<dp>, Fusion>, mesh<dp>>(
               machine, costs_of<mesh<dp>, about_it>, settings)
        .total();
  };
  const double expected =
      std::min(step(fuse::bytes<(index_t{4} << 20)>{}), step(fuse::automatic_on<about_it, 65536>{}));
  CHECK(plan.step.total() == doctest::Approx(expected).epsilon(1e-9));
  CHECK(plan.batch == 65536);
  CHECK(plan.samples_per_second() == doctest::Approx(65536 / expected));
  CHECK(plan.efficiency() > 0.5);
  CHECK(plan.efficiency() < 1);
  REQUIRE(plan.mesh.size() == 1);
  CHECK(plan.mesh[0].level == "net");
}

TEST_CASE("a pipeline is that of the type") {
  constexpr machine_description machine = hosts(1e-6, plenty);
  const device_plan plan = plan_devices<four, input<dynamic, 64>>(
      machine, {.devices = 2, .batch = 64, .levels = {true, false, false, false}, .stages = 2, .parts = 4});
  using model = parallel<four, input<dynamic, 64>, pipeline<pp>>;
  const step_price expected = price_step<model, mesh<pp>>(machine, costs_on(mesh<pp>::value, machine),
                                                          {.unknown = 64, .parts = 4, .remembered = 1});
  CHECK(plan.step.total() == doctest::Approx(expected.total()).epsilon(1e-9));
  CHECK(plan.step.bubble == doctest::Approx(expected.bubble).epsilon(1e-9));
  CHECK(plan.begins == std::vector<int>{0, 2});
  CHECK(plan.mesh.empty());
  CHECK(plan.layers[1].stage == 0);
  CHECK(plan.layers[2].stage == 1);
  CHECK(plan.layers[2].path == "2");
}

TEST_CASE("few devices lie in one server, stages of as few in two") {
  const auto level_of = [](device_request const& request) {
    const device_plan plan = plan_devices<four, input<dynamic, 64>, 1>(about_h100::about, request);
    REQUIRE(plan.mesh.size() == 1);
    return plan.mesh[0].level;
  };
  for (const int devices : {2, 3, 5, 6, 7, 8}) {
    CAPTURE(devices);
    CHECK(level_of({.devices = devices, .batch = 840, .most_stages = 1, .most_parts = 1}) == "NVLink");
  }
  CHECK(level_of({.devices = 12, .batch = 840, .most_stages = 1, .most_parts = 1}) == "InfiniBand");
  CHECK(level_of({.devices = 12, .batch = 840, .most_parts = 1, .stages = 2}) == "InfiniBand");
  CHECK(level_of({.devices = 8, .batch = 840, .most_parts = 1, .stages = 2}) == "NVLink");
}

TEST_CASE("weights that stages share are cut alike") {
  using language = tessera::model::gpt<64, 16, 32, 4, 2>;
  for (const int devices : {4, 8}) {
    const device_plan plan = plan_devices<language, input<dynamic, 16>>(
        hosts(1e-7, plenty), {.devices = devices, .batch = 8, .plans = 1, .tolerance = 0, .stages = 2});
    CHECK(plan.stages == 2);
    CHECK(plan.begins.size() == 2);
    planned_cut const& embedding = plan.layers.front();
    planned_cut const& logits = plan.layers[plan.layers.size() - 2];
    REQUIRE(embedding.layer.find("embedding") != std::string::npos);
    REQUIRE(logits.layer.find("linear") != std::string::npos);
    CHECK(embedding.stage == 0);
    CHECK(logits.stage == 1);
    for (std::size_t a = 0; a < plan.mesh.size(); ++a) {
      CHECK((embedding.words[a] == "vocabulary") == (logits.words[a] == "output"));
      CHECK((embedding.words[a] == "features") == (logits.words[a] == "input"));
    }
  }
}

TEST_CASE("no plan of one mesh takes less, nor data parallelism") {
  // Without latencies the sum that a planner minimises is no less than the step without the update.
  constexpr machine_description machine = prompt_hosts::about;
  const device_plan plan = plan_blocks(machine, {.devices = 8, .batch = 64, .tolerance = 0});
  const auto one_mesh = [&]<class... Axes>(mesh<Axes...>) {
    using problem = search_problem<mesh<Axes...>, prompt_hosts, float, any_word, 100>;
    planner<static_cast<int>(sizeof...(Axes))> planner(graph_of<problem, blocks, shape<2>{{64, 32}}>(1));
    return static_cast<double>(planner.best().time) * 1e-12;
  };
  const double passes = plan.step.total() - plan.step.update;
  CHECK(passes <= one_mesh(mesh<rows, columns>{}) * (1 + 1e-6));
  CHECK(passes <= one_mesh(mesh<columns, rows>{}) * (1 + 1e-6));
  using copies = parallel<blocks, input<64, 32>, data_parallel<eight>>;
  CHECK(plan.step.total() <=
        price_step<copies, mesh<eight>>(machine, costs_of<mesh<eight>, prompt_hosts>, {.remembered = 1}).total());
}

TEST_CASE("the best of all combinations is found, with memory and without") {
  const device_request request{.devices = 4, .batch = 64, .remembered = 2, .plans = 1, .tolerance = 0, .most_parts = 4};
  const device_plan free = plan_blocks(hosts(1e-6, plenty), request);
  const index_t whole = free.memory.total();
  for (const double share : {2.0, 0.6, 0.35}) {
    CAPTURE(share);
    const machine_description machine = hosts(1e-6, static_cast<index_t>(share * static_cast<double>(whole)));
    const auto plan = plan_if_it_fits(machine, request);
    const double least = least_of_all(machine, request);
    REQUIRE(plan.has_value() == (least < std::numeric_limits<double>::max()));
    if (!plan) continue;
    CHECK(plan->step.total() == doctest::Approx(least).epsilon(1e-9));
    CHECK(plan->memory.total() <= machine.memory);
    CHECK(plan->searched <= plan->combinations);
  }
}

TEST_CASE("less memory never makes a step shorter, and is used") {
  const device_request request{.devices = 2, .batch = 256, .remembered = 2, .tolerance = 0};
  double before = 0;
  index_t memory = plenty;
  int plans = 0;
  bool saved = false;
  for (; plans < 30; ++plans) {
    const auto plan = plan_if_it_fits(hosts(1e-6, memory), request);
    if (!plan) break;
    CHECK(plan->memory.total() <= memory);
    CHECK(plan->step.total() >= before * (1 - 1e-9));
    before = plan->step.total();
    saved = saved || plan->recompute || plan->parts > 1 || plan->stages > 1 || plan->level > 0;
    memory = plan->memory.total() * 9 / 10;
  }
  CHECK(plans > 2);
  CHECK(saved);
  // The error says what would do.
  const std::string text = errors::error_of([&] { plan_blocks(hosts(1e-6, memory), request); });
  const std::string mark = "; wanted ";
  const std::size_t at = text.find(mark);
  REQUIRE(at != std::string::npos);
  const index_t enough = std::stoll(text.substr(at + mark.size()));
  CHECK(enough > memory);
  CHECK(plan_blocks(hosts(1e-6, enough), request).memory.total() <= enough);
}

TEST_CASE("of more plans the best is no longer, and of all the best there is") {
  using perceptron = chain<linear<256, 512>, relu, linear<512, 512>, relu, linear<512, 64>>;
  bool gained = false;
  for (const double latency : {0.0, 1e-6, 1e-5}) {
    CAPTURE(latency);
    const machine_description machine = hosts(latency, plenty);
    double before = std::numeric_limits<double>::max();
    double first = 0;
    for (const int plans : {1, 4, 16, 10000}) {
      const double step =
          plan_devices<perceptron, input<256, 256>, 1>(
              machine, {.devices = 4, .plans = plans, .tolerance = 0, .most_stages = 1, .most_parts = 1})
              .step.total();
      CHECK(step <= before);
      before = step;
      if (plans == 1) first = step;
    }
    gained = gained || before < first * (1 - 1e-6);
    const double shortest = shortest_step<perceptron, shape<2>{{256, 256}}>(machine, mesh_sizes<1>{{4}});
    CHECK(before == doctest::Approx(shortest).epsilon(1e-9));
  }
  CHECK(gained);
}

// [ask]
TEST_CASE("an answer") {
  // At most a megabyte on each of 8 devices.
  const device_plan plan = plan_devices<blocks, input<dynamic, 32>>(
      hosts(1e-6, 1'000'000), {.devices = 8, .batch = 512});
  CHECK(plan.memory.total() <= 1'000'000);
  CHECK(plan.samples_per_second() > 1e5);
  // What each axis of the mesh cuts in each layer.
  for (planned_cut const& layer : plan.layers) CHECK(layer.words.size() == plan.mesh.size());
}
// [ask]

TEST_CASE("what is asked for is checked") {
  constexpr machine_description machine = hosts(1e-6, plenty);
  const auto text = [&](device_request const& request) {
    return errors::error_of([&] { plan_blocks(machine, request); });
  };
  CHECK(text({.devices = 4}).find("a batch of 0 samples") != std::string::npos);
  CHECK(text({.devices = 0, .batch = 8}).find("0 devices") != std::string::npos);
  CHECK(text({.devices = 4, .batch = std::numeric_limits<index_t>::max()}).find("at the most") != std::string::npos);
  CHECK(text({.devices = 4097, .batch = 4}).find("4096 at the most") != std::string::npos);
  CHECK(text({.devices = 4, .batch = 8, .memory = -1}).find("-1 bytes") != std::string::npos);
  CHECK(text({.devices = 4, .batch = 8, .memory = 1}).find("combinations on 4 devices") != std::string::npos);
  CHECK(text({.devices = 1, .batch = 1, .memory = 1}).find("one device a stage, 1 stage, 1 part, level") !=
        std::string::npos);
  CHECK(text({.devices = 4, .batch = 8, .memory = 1, .stages = 2, .parts = 4}).find("2 stages, 4 parts") !=
        std::string::npos);
  CHECK(text({.devices = 4, .batch = 8, .tolerance = 1}).find("within a share of 1.0") != std::string::npos);
  CHECK(text({.devices = 4, .batch = 8, .stages = 3}).find("no combination") != std::string::npos);
  CHECK(text({.devices = 4, .batch = 8, .stages = 3}).find("3 stages, any mesh, any number of parts") !=
        std::string::npos);
  CHECK(text({.devices = 4, .batch = 8, .mesh = {3}}).find("no combination") != std::string::npos);
  CHECK(text({.devices = 4, .batch = 8, .mesh = {3}}).find("any number of stages, a mesh of 3") != std::string::npos);
  CHECK(errors::error_of([&] {
          plan_devices<blocks, input<16, 32>>(machine, {.devices = 4, .batch = 8});
        }).find("batches of 8") != std::string::npos);
  machine_description broken = machine;
  broken.bytes_per_second = 0;
  CHECK(errors::error_of([&] { plan_blocks(broken, {.devices = 4, .batch = 8}); }).find("fault") != std::string::npos);
  // Times that picoseconds in 64 bits cannot hold.
  broken = machine;
  broken.bytes_per_second = 1e-300;
  machine_description unhurried = machine;
  unhurried.levels[1].link.seconds_per_byte = 3;
  for (machine_description const& m : {broken, unhurried})
    CHECK(errors::error_of([&] { plan_blocks(m, {.devices = 4, .batch = 8}); }).find("units") != std::string::npos);
}
