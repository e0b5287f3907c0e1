#include "equal_to_serial.hpp"

#include <tessera/model/resnet.hpp>

namespace {

using namespace equal_to_serial;

template <class Dp, class Tp>
using resnet = parallel<model::resnet_small<10, Tp>, input<dynamic, 1, 28, 28>, data_parallel<Dp>>;

}  // namespace

// At a rate that trains calmly float follows the serial run too.
TEST_CASE("twenty steps of the ResNet equal the serial run in float") {
  const momentum calm{.learning_rate = 1e-3};
  const shape<4> extents{{rows, 1, 28, 28}};
  const auto wanted = serial<float, resnet>(extents, 10, calm);
  on_mesh<float, resnet, 2, 1>(wanted, extents, 10, calm, 1e-3);
  on_mesh<float, resnet, 1, 2>(wanted, extents, 10, calm, 1e-3);
  on_mesh<float, resnet, 2, 2>(wanted, extents, 10, calm, 1e-3);
}
