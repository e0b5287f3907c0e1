// expect: tessera: conv2d has a number of groups that its channels are not cut by; choose a number of parts that divides the number of groups
// C28: four parts of six groups are one and a half groups each.
#include "../world.hpp"

#include <tessera/op/conv2d.hpp>

auto f(tensor_of<4, shard<1, tp>> const& x, tensor_of<4, shard<0, tp>> const& w, conv2d_geometry const& six) {
  return op::conv2d<6>(x, w, six);
}
