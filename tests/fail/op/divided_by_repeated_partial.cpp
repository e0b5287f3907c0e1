// expect: tessera: dividing by parts of a sum does not divide by the sum: reduce the divisor first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/broadcast.hpp>

auto f(tensor_of<2> const& a, tensor_of<1, partial<tp>> const& b) { return a / along<1>(b); }
