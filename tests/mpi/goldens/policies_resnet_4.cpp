#include "policies_resnet.hpp"

using namespace policies;
using world = mesh<a, b>;

TEST_CASE(
    "a small ResNet trains like its reference with channels cut and a sharded optimizer, recomputed, on four ranks") {
  check_resnet<world, small_resnet<b>, data_parallel<a>, optimizer_parallel<a, 2>, fuse::automatic>(
      "data, channels, level 2, automatic buckets");
  check_resnet<world, recompute<small_resnet<>>, data_parallel<a, b>, optimizer_parallel<axis_list<a, b>, 1>>(
      "data, recomputed, level 1");
}
