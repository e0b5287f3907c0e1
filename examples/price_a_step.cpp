// Describes a machine and prints what a training step of one model under two plans would take on it, without running
// anything.
//
// run: 1

#include <tessera/layer/activation.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/plan/machines/ascend_910_server.hpp>
#include <tessera/plan/step_price.hpp>

#include <cstdio>
#include <string>

namespace ts = tessera;

namespace {

// [machine]
// Hosts of 4 devices: 20 TFLOP/s in float32 of which large products reach 85 %, 800 GB/s of memory.
struct cluster {
  static constexpr ts::machine_description about{
      .peak = {.float64 = 0, .float32 = 20e12, .float16 = 160e12, .bfloat16 = 0},
      .reachable = 0.85,
      .half = 5e8,  // a product of so many operations runs at half of that rate
      .bytes_per_second = 800e9,
      .memory = 24'000'000'000,
      .launch = 4e-6,
      .levels = {{.ranks = 4, .link = {.latency = 3e-6, .seconds_per_byte = 1 / 100e9}, .name = "bridge"},
                 {.ranks = 0, .link = {.latency = 12e-6, .seconds_per_byte = 1 / 12e9}, .name = "network"}}};
};
// [machine]

// [plans]
struct dp : ts::axis<2> {};
struct tp : ts::axis<4> {};
using world = ts::mesh<dp, tp>;  // tp within a host, dp between two hosts

template <class First, class Second, class Batch>
using mlp = ts::parallel<ts::chain<ts::linear<4096, 16384, First>,  //
                                   ts::gelu,                        //
                                   ts::linear<16384, 4096, Second>>,
                         Batch>;
using copies = mlp<ts::no_split, ts::no_split, ts::data_parallel<dp, tp>>;
using pairs = mlp<ts::split_output<tp>, ts::split_input<tp>, ts::data_parallel<dp>>;
// [plans]

// [price]
// What a step of 512 rows takes, with an optimizer that remembers one value of each element.
constexpr ts::step_settings settings{.unknown = 512, .remembered = 1};
template <class Model, class Machine>
constexpr auto step = ts::price_step<Model, world, Machine>(settings);

// Constants: a test can pin a plan.
static_assert(step<pairs, cluster>.total() < step<copies, cluster>.total());
static_assert(step<pairs, cluster>.update < step<copies, cluster>.update / 3.9);
// [price]

void print(char const* name, ts::step_price const& s) {
  std::printf("%-38s %8.3f %8.3f %8.3f %8.3f %8.3f\n", name, 1e3 * s.forward, 1e3 * s.backward, 1e3 * s.exposed,
              1e3 * s.update, 1e3 * s.total());
}

/// A row for each layer of a model on `cluster`.
template <class Model>
void print_layers() {
  std::printf("\n%-6s %-40s %9s %9s %9s\n", "layer", "", "forward", "backward", "messages");
  // [layers]
  const auto layers = ts::price_model<Model, world, cluster>(settings);
  for (auto const& row : layers.rows) {
    const double messages = row.forward_messages + row.backward_messages;
    std::printf("%-6s %-40.40s %9.3f %9.3f %9.3f\n", std::string(row.path.text()).c_str(),
                std::string(row.layer).c_str(), 1e3 * row.forward, 1e3 * row.backward, 1e3 * messages);
  }
  // [layers]
}

}  // namespace

int main() {
  std::printf("%-38s %8s %8s %8s %8s %8s\n", "milliseconds", "forward", "backward", "exposed", "update", "step");
  print("cluster, 8 copies", step<copies, cluster>);
  print("cluster, 2 copies cut in 4", step<pairs, cluster>);
  using server = ts::machine::ascend_910_server;
  print("Ascend 910 server, 8 copies", step<copies, server>);
  print("Ascend 910 server, 2 copies cut in 4", step<pairs, server>);
  print_layers<pairs>();
}
