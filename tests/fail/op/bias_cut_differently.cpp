// expect: tessera: the operands of this operator are cut differently along a mesh axis: bring one to the layout of the other with x | tessera::to<...>
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

void f(tensor_of<2, shard<1, tp>>& y, tensor_of<1> const& bias) { op::add_bias(y, bias); }
