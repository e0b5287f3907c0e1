// expect: tessera: along<...> names one dimension of the result for each dimension of its tensor
#include "../world.hpp"

#include <tessera/op/broadcast.hpp>

auto f(tensor_of<2> const& a, tensor_of<2> const& b) { return a + along<1>(b); }
