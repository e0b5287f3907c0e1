#include "policies_resnet.hpp"

using namespace policies;
using world = mesh<a, b, c>;

TEST_CASE("a small ResNet trains like its reference in stages with channels and batch cut on eight ranks") {
  check_resnet<world, small_resnet<b>, data_parallel<c>, pipeline<a>>("stages, channels, data");
}
