#include "policies_resnet.hpp"

using namespace policies;
using world = mesh<a>;

TEST_CASE("a small ResNet trains like its reference with sharded parameters, and in stages, on two ranks") {
  check_resnet<world, small_resnet<>, data_parallel<a>, optimizer_parallel<a, 3>>("data, level 3");
  check_resnet<world, small_resnet<>, pipeline<a>>("stages");
}
