// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
// C12: the maximum of the parts is not the maximum of their sum.
#include "../world.hpp"

#include <tessera/op/reduce.hpp>

auto f(tensor_of<2, partial<tp>> const& x) { return op::reduce_max(x); }
