#include <tessera/backend/onednn.hpp>
#include <tessera/model/resnet.hpp>

#include "equal_to_serial.hpp"

namespace {

using namespace equal_to_serial;

template <class Dp, class Tp>
using resnet = parallel<model::resnet_small<10, Tp>, input<dynamic, 1, 28, 28>, data_parallel<Dp>>;

/// The run on two ranks with kernels by oneDNN.
template <int Dp, int Tp>
run_result by_onednn(shape<4> const& extents, momentum const& optimizer) {
  using dp = data_axis<Dp>;
  using tp = tensor_axis<Tp>;
  team<mesh<dp, tp>, mpi_comm, onednn> ranks{mpi_comm{}};
  return train<float, resnet<dp, tp>>(ranks, extents, 10, optimizer, {});
}

}  // namespace

TEST_CASE("twenty steps of the ResNet by oneDNN on two ranks equal the serial run by Eigen") {
  if (worlds::size() != 2) return;
  const momentum calm{.learning_rate = 1e-3};
  const shape<4> extents{{rows, 1, 28, 28}};
  const auto wanted = serial<float, resnet>(extents, 10, calm);
  compare(by_onednn<2, 1>(extents, calm), wanted, 1e-3);
  compare(by_onednn<1, 2>(extents, calm), wanted, 1e-3);
}
