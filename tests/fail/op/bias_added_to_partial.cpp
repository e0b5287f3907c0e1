// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

void f(tensor_of<2, partial<tp>>& y, tensor_of<1> const& bias) { op::add_bias(y, bias); }
