// expect: tessera: neither operand has a dimension of the result, so its extent is unknown; leave the gap out of along<...>
#include "../world.hpp"

#include <tessera/op/broadcast.hpp>

auto f(tensor_of<1> const& a, tensor_of<1> const& b) { return along<0>(a) + along<2>(b); }
