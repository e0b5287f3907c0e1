// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/pool2d.hpp>

auto f(tensor_of<4, partial<tp>> const& x, pool2d_geometry const& g) { return op::max_pool2d(x, g); }
