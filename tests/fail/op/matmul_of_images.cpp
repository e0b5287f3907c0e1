// expect: tessera: matmul takes matrices; reshape the operands to rank 2 first
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

auto f(tensor_of<4> const& a, tensor_of<2> const& b) { return op::matmul(a, b); }
