// expect: tessera: group_norm takes images [N, C, H, W]; reshape the input first
#include "../world.hpp"

#include <tessera/op/group_norm.hpp>

auto f(tensor_of<2> const& x) { return op::group_norm<2>(x); }
