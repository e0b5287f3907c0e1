// How long the planner takes at run time to find the best plan of a model on a number of devices: the first plan of a
// planner, with all routes between layouts, and the next one. And how long `plan_devices` takes for all else too, with
// what it finds. On one rank; ranks do not share the work.

#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/machines/h100_server.hpp>
#include <tessera/plan/plan_devices.hpp>
#include <tessera/plan/search/planner.hpp>

#include <benchmark/benchmark.h>

#include <string>

namespace {

namespace ts = tessera;

template <int Size, int>
struct side : ts::axis<Size> {};
template <int... Sizes>
struct grid {
  template <int... I>
  static ts::mesh<side<Sizes, I>...> of(std::integer_sequence<int, I...>);
  using type = decltype(of(std::make_integer_sequence<int, static_cast<int>(sizeof...(Sizes))>{}));
};

struct any_cut {
  static constexpr bool allows(std::string_view) { return true; }
};

template <int Blocks>
using language_model = ts::model::gpt<50304, 1024, 2048, 16, Blocks>;

template <class Model, auto Input, int... Sizes>
void add(std::string name) {
  using mesh = typename grid<Sizes...>::type;
  using problem = ts::search_problem<mesh, ts::machine::h100_server, float, any_cut, 100>;
  char const* between = "/";
  ((name += between + std::to_string(Sizes), between = "x"), ...);
  benchmark::RegisterBenchmark((name + "/first").c_str(), [](benchmark::State& state) {
    for (auto _ : state) {
      ts::planner<mesh::axes> planner(ts::graph_of<problem, Model, Input>(1));
      state.counters["step_ms"] = static_cast<double>(planner.best().time) * 1e-9;
    }
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark((name + "/next").c_str(), [](benchmark::State& state) {
    ts::planner<mesh::axes> planner(ts::graph_of<problem, Model, Input>(1));
    planner.best();
    for (auto _ : state) benchmark::DoNotOptimize(planner.best());
  })->Unit(benchmark::kMillisecond);
}

template <int... Sizes>
void add_models() {
  add<ts::model::resnet50<1000>, ts::shape<4>{{256, 3, 224, 224}}, Sizes...>("resnet50");
  add<language_model<24>, ts::shape<2>{{64, 1024}}, Sizes...>("gpt24");
  add<language_model<96>, ts::shape<2>{{64, 1024}}, Sizes...>("gpt96");
}

/// Numbers of 16 bits, so many samples a device.
template <class Model, class Input>
void add_devices(std::string const& name, int samples, ts::index_t remembered) {
  for (const int devices : {8, 64, 512, 4096})
    benchmark::RegisterBenchmark(("devices/" + name + "/" + std::to_string(devices)).c_str(),
                                 [=](benchmark::State& state) {
                                   ts::device_plan plan;
                                   for (auto _ : state)
                                     plan = ts::plan_devices<Model, Input>(ts::machine::h100_server::about,
                                                                           {.devices = devices,
                                                                            .batch = samples * ts::index_t{devices},
                                                                            .element_bytes = 2,
                                                                            .remembered = remembered});
                                   state.counters["step_ms"] = 1e3 * plan.step.total();
                                   state.counters["efficiency"] = plan.efficiency();
                                   state.counters["combinations"] = plan.combinations;
                                   state.counters["searched"] = plan.searched;
                                 })
        ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  add_models<8>();
  add_models<2, 4>();
  add_models<2, 2, 2>();
  add_models<8, 8>();
  add_models<4, 16>();
  add_models<4, 4, 4>();
  add_models<16, 32>();
  add_models<8, 8, 8>();
  add_models<64, 64>();
  add_models<16, 16, 16>();
  add_devices<ts::model::resnet50<1000>, ts::input<ts::dynamic, 3, 224, 224>>("resnet50", 64, 1);
  add_devices<language_model<24>, ts::input<ts::dynamic, 1024>>("gpt24", 8, 2);
  benchmark::RunSpecifiedBenchmarks();
}
