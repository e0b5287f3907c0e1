#include "shared_parameters.hpp"

#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/training_memory.hpp>

// The memory of the stages of pipelines, counted by `host_memory` and on paper, on each rank.

namespace {

using namespace shared_parameters;
using tessera::index_t;

template <int Size>
struct pipe_axis : axis<Size> {};

/// Steps of so many parts of `Input` each, if this run has as many ranks. `Level` is that of `optimizer_parallel`.
template <class Layers, class Schedule, int Pp, int Dp, class Input, int Level = 0>
void on_mesh(int parts, index_t classes) {
  if (worlds::size() != Pp * Dp) return;
  CAPTURE(Pp);
  CAPTURE(parts);
  using world = mesh<data_axis<Dp>, pipe_axis<Pp>>;
  using shared =
      std::conditional_t<Level == 0, fuse::bytes<(index_t{4} << 20)>, optimizer_parallel<data_axis<Dp>, Level>>;
  using model = parallel<Layers, Input, data_parallel<data_axis<Dp>>, shared, pipeline<pipe_axis<Pp>, Schedule>>;
  using plan = pipeline_plan<model, world>;
  counted_team<world> team;
  const auto bytes = training_memory<model, world, float, Input>(adam{}, team.coordinates(), parts);

  const auto begin = live();
  auto net = team.template make<model>(seed{7});
  CHECK(live() - begin == bytes.parameters + bytes.gradients);
  using input_type = typename decltype(net)::input_type;
  std::vector<input_type> x;
  std::vector<std::vector<std::int64_t>> targets;
  for (int p = 0; p < parts; ++p) {
    x.push_back(distribute<typename input_type::layout_type>(team, batch_of<float>(Input::extents, 3)));
    const auto labels = worlds::labels(Input::extents[0], classes, 4);
    targets.push_back(worlds::rows_of(labels, cut({0, Input::extents[0]}, Dp, team.coordinates()[0])));
  }
  trainer fit(net, cross_entropy{}, adam{});
  // Kernels keep memory from their first run on.
  fit.step(x, targets);
  const auto between = live();
  host_memory::reset_peak();
  fit.step(x, targets);
  CHECK(live() == between);
  const auto most = static_cast<index_t>(host_memory::used().peak) - between;
  // Parts that come from outside are there anyway.
  const int device = team.coordinates()[1];
  const index_t part = block_bytes(x[0].local().size(), sizeof(typename input_type::value_type));
  const index_t given = device == 0 ? plan::peak_live(0, parts) * part : 0;
  CHECK(bytes.activations - given <= most);
  CHECK(most <= bytes.activations + bytes.workspace);
}

struct layers : chain<linear<24, 40>, relu, linear<40, 40>, relu, linear<40, 32>, relu, linear<32, 24>, relu,
                      linear<24, 16>, relu, linear<16, 8>> {};

TEST_CASE("the memory of stages") {
  on_mesh<layers, one_forward_one_backward, 2, 1, input<12, 24>>(5, 8);
  on_mesh<layers, gpipe, 2, 1, input<12, 24>>(5, 8);
  on_mesh<layers, interleaved<2>, 2, 1, input<12, 24>>(4, 8);
  on_mesh<layers, one_forward_one_backward, 4, 1, input<12, 24>>(1, 8);
  on_mesh<layers, one_forward_one_backward, 4, 1, input<12, 24>>(6, 8);
  on_mesh<layers, gpipe, 2, 2, input<13, 24>>(3, 8);
}
/// The last stage has a copy of the weight of the first.
struct shared_weight;
struct ends : chain<embedding<11, 16, tied<shared_weight>>, linear<16, 24>, relu, linear<24, 16>, relu,
                    linear<16, 11, no_bias, tied<shared_weight>>> {};

TEST_CASE("the memory of stages that share a parameter") {
  on_mesh<ends, one_forward_one_backward, 2, 1, input<13>>(4, 11);
  on_mesh<ends, one_forward_one_backward, 2, 2, input<13>>(4, 11);
}
TEST_CASE("the memory of stages whose ranks divide it among them") {
  on_mesh<layers, one_forward_one_backward, 2, 2, input<13, 24>, 1>(4, 8);
  on_mesh<layers, one_forward_one_backward, 2, 2, input<13, 24>, 2>(4, 8);
  on_mesh<layers, one_forward_one_backward, 2, 2, input<13, 24>, 3>(4, 8);
}

}  // namespace
