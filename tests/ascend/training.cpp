#include "devices.hpp"
#include "mpi/train/equal_to_serial.hpp"
#include "support/listed_calls.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/plan/pipeline.hpp>
#include <tessera/train/adam.hpp>
#include <tessera/train/trainer.hpp>

#include <cmath>
#include <utility>
#include <vector>

// Networks train on several devices as on the host alone.

namespace {

using namespace tessera;
using tessera::index_t;

using equal_to_serial::data_axis;
using equal_to_serial::rows;
using equal_to_serial::tensor_axis;

template <int Size>
struct stage_axis : axis<Size> {};

template <class Mesh>
using devices = job::devices<Mesh, recording<hccl_comm>>;
constexpr auto recorded = [](hccl_comm all) { return recording(std::move(all)); };

/// Whether this run has the ranks of a mesh, and HCCL its groups: not those of two or four devices in both halves of a
/// server of the first 910.
template <class Mesh>
bool has() {
  if (worlds::size() != Mesh::devices) return false;
  if (Mesh::devices < 8 || Mesh::sizes[0] == 8 || ascend_910b::is(aclrtGetSocName())) return true;
  CHECK_THROWS_AS(devices<Mesh>(job::team_world(recorded)), error);
  return false;
}

template <int Dp, int Tp>
struct sizes {};

/// Calls `train.operator()<Model<Dp, Tp>>(team)` on devices, if this run has as many ranks, and compares with `wanted`.
template <template <class, class> class Model, int Dp, int Tp, class Train>
void on_mesh(sizes<Dp, Tp>, equal_to_serial::run_result const& wanted, Train train, double bound) {
  using world = mesh<data_axis<Dp>, tensor_axis<Tp>>;
  if (!has<world>()) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  devices<world> team{job::team_world(recorded)};
  equal_to_serial::compare(train.template operator()<Model<data_axis<Dp>, tensor_axis<Tp>>>(team), wanted, bound);
}
/// The same on meshes of these sizes, wanted what training serially on the host gives.
template <template <class, class> class Model, class... Sizes, class Train>
void on_meshes(Train train, double bound) {
  worlds::serial_team<mesh<data_axis<1>, tensor_axis<1>>> alone{serial_comm{}};
  const auto wanted = train.template operator()<Model<data_axis<1>, tensor_axis<1>>>(alone);
  (on_mesh<Model>(Sizes{}, wanted, train, bound), ...);
}

/// Twenty steps on random images or rows.
template <int Rank>
auto train_on_values(shape<Rank> const& extents, index_t classes, double rate) {
  return [=]<class Model>(auto& team) {
    return equal_to_serial::train<float, Model>(team, extents, classes, momentum{.learning_rate = rate}, {});
  };
}

/// Ten steps to find the words that are there. Adam divides gradients by their size: those of nothing but rounding by
/// `epsilon`, which makes a last digit of a gradient the fourth of a step.
struct train_on_words {
  template <class Model, class Team>
  equal_to_serial::run_result operator()(Team& team) const {
    auto net = team.template make<Model>(seed{7});
    trainer fit(net, cross_entropy{}, adamw{.learning_rate = 0.01, .epsilon = 1e-3}, {.clip_norm = 5});
    using input_type = typename decltype(net)::input_type;
    equal_to_serial::run_result result;
    for (std::uint64_t s = 0; s < 10; ++s) {
      const auto words = worlds::labels(8 * 7, 11, s);
      tensor<std::int64_t, 2> whole(shape<2>{{8, 7}});
      std::copy(words.begin(), words.end(), whole.data());
      const auto x = distribute<typename input_type::layout_type>(team, whole);
      const interval mine = x.part()[0];
      result.losses.push_back(fit.step(x, worlds::rows_of(words, {7 * mine.begin, 7 * mine.size})));
    }
    result.parameters = equal_to_serial::whole_parameters(team, net);
    return result;
  }
};

template <class Dp, class Tp>
using mlp = parallel<
    chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, relu, linear<9, 7, split_output<Tp>>>,
    data_parallel<Dp>, fuse::at<2>>;

template <class Dp, class Tp>
using resnet = parallel<model::resnet_small<10, Tp>, input<dynamic, 1, 12, 12>, data_parallel<Dp>>;

// 7 positions, 11 words and 4 heads: uneven on every mesh.
template <class Dp, class Tp>
using language_model = parallel<model::gpt<11, 9, 8, 4, 2, Tp>, input<8, 7>, data_parallel<Dp>, fuse::bytes<2000>>;

// Halos: rows of images on several devices.
template <class Dp, class Tp>
using spatial =
    parallel<chain<conv2d<1, 4, window<3, 1, 1>, split_height<Tp>>, relu,
                   conv2d<4, 3, window<3, 1, 1>, split_height<Tp>>, relu, global_avg_pool<>, flatten<>, linear<3, 5>>,
             input<dynamic, 1, 11, 9>, data_parallel<Dp>>;

/// Micro-batches through stages on several devices.
template <int Stages>
using stages = parallel<chain<linear<12, 20>, relu, linear<20, 9>, relu, linear<9, 7>>, pipeline<stage_axis<Stages>>>;

template <class Model, class Team>
std::vector<double> pipeline_losses(Team& team) {
  auto net = team.template make<Model>(seed{7});
  trainer fit(net, cross_entropy{}, momentum{.learning_rate = 0.05}, {.clip_norm = 1});
  using input_type = typename decltype(net)::input_type;
  std::vector<double> losses;
  for (std::uint64_t s = 0; s < 4; ++s) {
    std::vector<input_type> x;
    std::vector<std::vector<std::int64_t>> targets;
    for (const index_t size : {4, 3, 5}) {  // whose extents the stages tell each other
      const auto stream = 10 * s + static_cast<std::uint64_t>(size);
      const auto whole = worlds::values<float>(shape<2>{{size, 12}}, stream);
      x.push_back(distribute<typename input_type::layout_type>(team, whole));
      targets.push_back(worlds::labels(size, 7, stream));
    }
    losses.push_back(fit.step(x, targets));
  }
  return losses;
}
template <int Stages>
void pipeline_on_devices() {
  if (worlds::size() != Stages) return;
  worlds::serial_team<mesh<stage_axis<1>>> alone{serial_comm{}};
  devices<mesh<stage_axis<Stages>>> team{job::team_world(recorded)};
  const auto wanted = pipeline_losses<stages<1>>(alone);
  const auto found = pipeline_losses<stages<Stages>>(team);
  for (std::size_t s = 0; s < wanted.size(); ++s) CHECK(std::abs(found[s] - wanted[s]) <= 2e-5 * (1 + wanted[s]));
}

template <int Dp, int Tp>
void calls_are_listed() {
  using world = mesh<data_axis<Dp>, tensor_axis<Tp>>;
  if (worlds::size() != world::devices) return;
  devices<world> team{job::team_world(recorded)};
  worlds::check_listed_calls_of<mlp<data_axis<Dp>, tensor_axis<Tp>>>(
      team, shape<2>{{rows, 12}}, [](shape<2> const& whole) { return worlds::values<float>(whole, 5); });
}

}  // namespace

// Bounds: as those of the same networks on the host, where sums are of another order too. The ResNet is trained calmly:
// at higher rates a last digit is another network twenty steps later.
TEST_CASE("ascend: twenty steps of an MLP on several devices equal the serial run") {
  on_meshes<mlp, sizes<1, 1>, sizes<2, 1>, sizes<1, 2>, sizes<2, 2>, sizes<4, 1>, sizes<8, 1>>(
      train_on_values(shape<2>{{rows, 12}}, 7, 0.05), 2e-5);
}
TEST_CASE("ascend: twenty steps of a ResNet on several devices equal the serial run") {
  on_meshes<resnet, sizes<1, 1>, sizes<2, 1>, sizes<1, 2>, sizes<2, 2>, sizes<2, 4>>(
      train_on_values(shape<4>{{rows, 1, 12, 12}}, 10, 1e-3), 1e-3);
}
TEST_CASE("ascend: ten steps of a Transformer on several devices equal the serial run") {
  on_meshes<language_model, sizes<1, 1>, sizes<2, 1>, sizes<1, 2>, sizes<2, 2>, sizes<1, 4>, sizes<8, 1>, sizes<2, 4>>(
      train_on_words{}, 1e-4);
}
TEST_CASE("ascend: rows of images on several devices equal the serial run") {
  on_meshes<spatial, sizes<1, 2>, sizes<2, 2>, sizes<1, 4>>(train_on_values(shape<4>{{rows, 1, 11, 9}}, 5, 0.05), 2e-5);
}
TEST_CASE("ascend: a pipeline on several devices equals the serial run") {
  pipeline_on_devices<1>();
  pipeline_on_devices<2>();
}
TEST_CASE("ascend: an MLP makes exactly the collectives that its type lists") {
  calls_are_listed<2, 1>();
  calls_are_listed<1, 2>();
  calls_are_listed<2, 2>();
}
