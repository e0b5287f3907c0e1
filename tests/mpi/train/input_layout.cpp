#include "support/worlds.hpp"

#include <tessera/layer/chain.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/train/trainer.hpp>

// Images that every rank loads its own part of: training and evaluation equal the serial run.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Size>
struct batch : axis<Size> {};
template <int Size>
struct height : axis<Size> {};

template <class Policy>
using network_of = parallel<chain<conv2d<2, 4, window<3, 1, 1>>, relu, max_pool2d<window<3, 2, 1>>,
                                  conv2d<4, 5, window<3, 2, 1>>, relu, global_avg_pool<>, flatten<>, linear<5, 3>>,
                            input<dynamic, 2, 11, 6>, Policy>;

template <int Batch, int Height>
using cut_images = network_of<input_layout<shard<0, batch<Batch>>, shard<2, height<Height>>>>;

static_assert(plan<cut_images<2, 2>, mesh<batch<2>, height<2>>>::input::layout.shard_axes(2) == 0b10);
static_assert(std::is_same_v<data_parallel<batch<2>>::layout, input_layout<row<batch<2>>>::layout>);

image_dataset images(index_t count) {
  image_dataset data{{count, 2, 11, 6}, {}, worlds::labels(count, 3, 1), 3};
  const philox draw(5, 0);
  for (index_t i = 0; i < data.extents.size(); ++i)
    data.pixels.push_back(static_cast<std::uint8_t>(256 * draw.uniform(static_cast<std::uint64_t>(i))));
  return data;
}

template <class Model, class Team>
std::vector<double> trained(Team& team) {
  const image_dataset data = images(26);
  auto net = team.template make<Model, double>(seed{3});
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.05});
  const image_batches batches{.data = data, .batch = 7, .mean = 0.5f, .deviation = 0.3f};
  std::vector<double> found = fit.fit(batches, epochs{3});
  found.push_back(fit.evaluate(batches).accuracy);
  return found;
}

template <int Batch, int Height>
void on_mesh(std::vector<double> const& wanted) {
  if (worlds::size() != Batch * Height) return;
  CAPTURE(Batch);
  worlds::parallel_team<mesh<batch<Batch>, height<Height>>> team{mpi_comm{}};
  const auto found = trained<cut_images<Batch, Height>>(team);
  REQUIRE(found.size() == wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(wanted[i]).epsilon(1e-10));
}

}  // namespace

TEST_CASE("images of which each rank loads a part of the batch and height train like whole ones") {
  worlds::serial_team<mesh<>> alone{serial_comm{}};
  const auto wanted = trained<network_of<input_layout<>>>(alone);
  CHECK(wanted.front() > wanted[2]);
  on_mesh<1, 1>(wanted);
  on_mesh<1, 2>(wanted);
  on_mesh<1, 4>(wanted);
  on_mesh<2, 2>(wanted);
}
