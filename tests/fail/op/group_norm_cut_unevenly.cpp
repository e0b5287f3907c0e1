// expect: tessera: group_norm has a number of groups that its channels are not cut by; choose a number of parts that divides the number of groups
#include "../world.hpp"

#include <tessera/op/group_norm.hpp>

auto f(tensor_of<4, shard<1, tp>> const& x) { return op::group_norm<6>(x); }
