// expect: tessera: this operator takes tensors of equal rank; reshape one of them first
#include "../world.hpp"

#include <tessera/op/elementwise.hpp>

auto f(tensor_of<2> const& a, tensor_of<1> const& b) { return a + b; }
