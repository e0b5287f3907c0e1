// expect: tessera: the operands of this operator are cut differently along a mesh axis: bring one to the layout of the other with x | tessera::to<...>
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

auto f(tensor_of<2, shard<1, tp>> const& a, tensor_of<2> const& b) { return op::matmul(a, b); }
