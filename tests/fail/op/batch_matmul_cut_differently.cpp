// expect: tessera: the operands of this operator are cut differently along a mesh axis: bring one to the layout of the other with x | tessera::to<...>
#include "../world.hpp"

#include <tessera/op/batch_matmul.hpp>

auto f(tensor_of<3, row<tp>> const& a, tensor_of<3> const& b) { return op::batch_matmul(a, b); }
