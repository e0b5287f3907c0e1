// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first
#include "../world.hpp"

#include <tessera/op/dropout.hpp>

auto f(tensor_of<2, partial<tp, reduction::maximum>> const& x, philox const& draw) { return op::dropout(x, 0.5, draw); }
