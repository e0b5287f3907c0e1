// expect: tessera: along<...> names dimensions from 0 to 5 in rising order; transpose the tensor first
#include "../world.hpp"

#include <tessera/op/broadcast.hpp>

auto f(tensor_of<3> const& a, tensor_of<2> const& b) { return a + along<1, 0>(b); }
