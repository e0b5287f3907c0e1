// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/reduce.hpp>

auto f(tensor_of<2, partial<tp>> const& x) { return op::max<1>(x); }
