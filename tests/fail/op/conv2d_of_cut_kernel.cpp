// expect: tessera: this operator has no split of a dimension that its operand is cut along: undo the cut first with x | tessera::to<...>, or cut a dimension that its rules list
#include "../world.hpp"

#include <tessera/op/conv2d.hpp>

auto f(tensor_of<4> const& x, tensor_of<4, shard<2, tp>> const& w) { return op::conv2d(x, w, {}); }
