// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/reduce.hpp>

auto f(tensor_of<1, partial<tp, reduction::maximum>> const& x) { return op::reduce_sum(x); }
