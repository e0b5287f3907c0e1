#include "pipeline_case.hpp"

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/residual.hpp>

// Convolutional networks in stages: batch norm, blocks, fit and evaluation.

namespace {

using namespace pipeline_case;

template <class, class>
using net = parallel<chain<conv2d<1, 4, window<3, 1, 1>>, batch_norm2d<4>, relu, max_pool2d<window<2, 2>>,
                           residual<chain<conv2d<4, 4, window<3, 1, 1>>, batch_norm2d<4>>>, relu, global_avg_pool<>,
                           flatten<>, linear<4, 3>>,
                     input<dynamic, 1, 6, 6>>;

using world = mesh<pipe_axis<2>, data_axis<2>>;
using staged = parallel<net<void, void>::model, input<dynamic, 1, 6, 6>, data_parallel<data_axis<2>>,
                        pipeline<pipe_axis<2>, interleaved<2>>>;

image_dataset images() {
  image_dataset data{{{22, 1, 6, 6}}, {}, {}, 3};
  for (int i = 0; i < 22 * 36; ++i) data.pixels.push_back(static_cast<std::uint8_t>((i * i * 37) % 256));
  for (int i = 0; i < 22; ++i) data.labels.push_back((i * 5) % 3);
  return data;
}

template <class Model, class Team>
std::vector<double> fitted(Team& team) {
  const image_dataset data = images();
  auto net = team.template make<Model, double>(seed{4});
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.05}, {.parameter_broadcast = true, .micro_batches = 3});
  const image_batches batches{data, 8, 0.5f};
  auto result = fit.fit(batches, epochs{2});
  result.push_back(fit.evaluate(batches).accuracy);
  return result;
}

}  // namespace

TEST_CASE("a pipeline fits and evaluates images like the serial run") {
  if (worlds::size() != world::devices) return;
  worlds::serial_team<mesh<>> alone{serial_comm{}};
  worlds::parallel_team<world> team{mpi_comm{}};
  const auto wanted = fitted<net<void, void>>(alone);
  const auto found = fitted<staged>(team);
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(found[i] - wanted[i]) < 1e-12);
}

TEST_CASE("each stage knows what its own layers keep between steps") {
  if (worlds::size() != world::devices) return;
  worlds::parallel_team<world> team{mpi_comm{}};
  auto net = team.make<staged>(seed{4});
  // Stages 0 and 2 are on the first ranks, 1 and 3 on the others.
  index_t elements = 0;
  for (auto const& p : net.parameters()) {
    CHECK(p.cut_by == world::set_of<pipe_axis<2>>);
    elements += p.value.size();
  }
  team.group(world::set_of<pipe_axis<2>>).all_reduce(&elements, 1, reduction::sum);
  CHECK(elements == 40 + 16 + 148 + 16 + 15);
}

TEST_CASE("a pipeline says what it refuses") {
  if (worlds::size() != world::devices) return;
  worlds::parallel_team<world> team{mpi_comm{}};
  auto net = team.make<staged>(seed{4});
  const auto x = distribute<shard<0, data_axis<2>>>(team, worlds::values<float>(shape<4>{{4, 1, 6, 6}}, 1));
  const auto wrong = distribute<shard<0, data_axis<2>>>(team, worlds::values<float>(shape<4>{{4, 1, 5, 6}}, 1));
  CHECK_THROWS_WITH_AS(
      net.forward(x, true),
      "tessera: forward in training through a pipeline; wanted a step, which takes all parts of a batch "
      "at once; use a trainer, or network::step; forward(x, false) evaluates",
      error);
  CHECK_THROWS_AS(net.forward(wrong), error);
  trainer fit(net, cross_entropy{}, sgd(0.1));
  CHECK_THROWS_AS(fit.step(distribute<shard<0, data_axis<2>>>(team, worlds::values<float>(shape<4>{{1, 1, 6, 6}}, 1)),
                           std::vector<std::int64_t>{1}),
                  error);
}
