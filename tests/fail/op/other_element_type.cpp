// expect: tessera: the operands of this operator are on different meshes or hold elements of different types; make them on one context with one element type
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

auto f(tensor_of<2> const& a, sharded<double, 2, replicated, here> const& b) { return op::matmul(a, b); }
