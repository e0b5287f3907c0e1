// expect: tessera: a bias has one dimension; reshape it first
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

void f(tensor_of<2>& y, tensor_of<2> const& bias) { op::add_bias(y, bias); }
