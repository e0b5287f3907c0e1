// expect: tessera: along<...> names a dimension that the other operand does not have; name dimensions below its rank, or wrap both operands in along<...>
#include "../world.hpp"

#include <tessera/op/broadcast.hpp>

auto f(tensor_of<2> const& a, tensor_of<1> const& b) { return a + along<2>(b); }
