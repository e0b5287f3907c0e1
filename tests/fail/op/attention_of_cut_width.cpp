// expect: tessera: this operator has no split of a dimension that its operand is cut along: undo the cut first with x | tessera::to<...>, or cut a dimension that its rules list
#include "../world.hpp"

#include <tessera/op/attention.hpp>

auto f(tensor_of<4, shard<3, tp>> const& x) { return op::scaled_dot_product_attention(x, x, x); }
