#include "job.hpp"
#include "mpi/train/equal_to_serial.hpp"
#include "support/listed_calls.hpp"

#include <tessera/backend/ascend.hpp>
#include <tessera/comm/recording.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/plan/pipeline.hpp>
#include <tessera/train/trainer.hpp>

#include <cmath>
#include <vector>

// Networks train on several devices as on the host alone.

#ifndef TESSERA_ASCEND_CHIP
#define TESSERA_ASCEND_CHIP ascend_910b
#endif

namespace {

using namespace tessera;
using tessera::index_t;

using equal_to_serial::data_axis;
using equal_to_serial::rows;
using equal_to_serial::tensor_axis;

template <int Size>
struct stage_axis : axis<Size> {};

template <class Mesh>
using device_team = team<Mesh, recording<hccl_comm>, ascend<TESSERA_ASCEND_CHIP>>;

/// A team of the job's ranks on their devices.
template <class Mesh>
class devices {
 public:
  device_team<Mesh>& operator*() { return team_; }

 private:
  job::everything& job_ = job::here();  // opens the device before the backend does
  device_team<Mesh> team_{[this](auto&) { return recording(job_.all.split(0, job_.all.rank())); }};
};

/// Trains `Model<Dp, Tp>` on devices, if this run has as many ranks, and serially on the host.
template <template <class, class> class Model, int Dp, int Tp, int Rank>
void on_mesh(shape<Rank> const& extents, index_t classes, double rate, double bound) {
  if (worlds::size() != Dp * Tp) return;
  CAPTURE(Dp);
  CAPTURE(Tp);
  const momentum optimizer{.learning_rate = rate};
  devices<mesh<data_axis<Dp>, tensor_axis<Tp>>> all;
  equal_to_serial::compare(
      equal_to_serial::train<float, Model<data_axis<Dp>, tensor_axis<Tp>>>(*all, extents, classes, optimizer, {}),
      equal_to_serial::serial<float, Model>(extents, classes, optimizer), bound);
}
template <template <class, class> class Model, int Rank>
void on_all_meshes(shape<Rank> const& extents, index_t classes, double rate, double bound) {
  on_mesh<Model, 1, 1>(extents, classes, rate, bound);
  on_mesh<Model, 2, 1>(extents, classes, rate, bound);
  on_mesh<Model, 1, 2>(extents, classes, rate, bound);
  on_mesh<Model, 2, 2>(extents, classes, rate, bound);
  on_mesh<Model, 4, 1>(extents, classes, rate, bound);
}

template <class Dp, class Tp>
using mlp = parallel<
    chain<linear<12, 20, split_output<Tp>>, relu, linear<20, 9, split_input<Tp>>, relu, linear<9, 7, split_output<Tp>>>,
    data_parallel<Dp>, fuse::at<2>>;

template <class Dp, class Tp>
using resnet = parallel<model::resnet_small<10, Tp>, input<dynamic, 1, 12, 12>, data_parallel<Dp>>;

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
  devices<mesh<stage_axis<Stages>>> all;
  const auto wanted = pipeline_losses<stages<1>>(alone);
  const auto found = pipeline_losses<stages<Stages>>(*all);
  for (std::size_t s = 0; s < wanted.size(); ++s) CHECK(std::abs(found[s] - wanted[s]) <= 2e-5 * (1 + wanted[s]));
}

template <int Dp, int Tp>
void calls_are_listed() {
  using world = mesh<data_axis<Dp>, tensor_axis<Tp>>;
  if (worlds::size() != world::devices) return;
  devices<world> all;
  worlds::check_listed_calls_of<mlp<data_axis<Dp>, tensor_axis<Tp>>>(
      *all, shape<2>{{rows, 12}}, [](shape<2> const& whole) { return worlds::values<float>(whole, 5); });
}

}  // namespace

// Bounds: as those of the same networks on the host, where sums are of another order too. The ResNet is trained calmly:
// at higher rates a last digit is another network twenty steps later.
TEST_CASE("ascend: twenty steps of an MLP on several devices equal the serial run") {
  on_all_meshes<mlp>(shape<2>{{rows, 12}}, 7, 0.05, 2e-5);
}
TEST_CASE("ascend: twenty steps of a ResNet on several devices equal the serial run") {
  on_all_meshes<resnet>(shape<4>{{rows, 1, 12, 12}}, 10, 1e-3, 1e-3);
}
TEST_CASE("ascend: rows of images on several devices equal the serial run") {
  on_mesh<spatial, 1, 2>(shape<4>{{rows, 1, 11, 9}}, 5, 0.05, 2e-5);
  on_mesh<spatial, 2, 2>(shape<4>{{rows, 1, 11, 9}}, 5, 0.05, 2e-5);
  on_mesh<spatial, 1, 4>(shape<4>{{rows, 1, 11, 9}}, 5, 0.05, 2e-5);
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
