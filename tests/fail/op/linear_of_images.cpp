// expect: tessera: linear takes inputs of 1, 2, 3 or 5 dimensions; flatten images first
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

auto f(tensor_of<4> const& x, tensor_of<2> const& w) { return op::linear_product(x, w); }
