#include "equal_to_serial.hpp"

#include <tessera/model/resnet.hpp>

namespace {

using namespace equal_to_serial;

template <class Dp, class Tp>
using resnet = parallel<model::resnet_small<10, Tp>, input<dynamic, 1, 12, 12>, data_parallel<Dp>>;

}  // namespace

// Batch norm on a small batch amplifies a rounding error by a factor of about three a step, so that in float, at 1e-7,
// twenty steps would say little. In double twenty steps stay below 1e-8, and a wrong term would still be seen at once.
TEST_CASE("twenty steps of the ResNet equal the serial run in double") {
  on_all_meshes<double, resnet>(shape<4>{{rows, 1, 12, 12}}, 10, {.learning_rate = 0.01}, 1e-8);
}
