// expect: tessera: a value that is not partial cannot be added to a partial sum, every rank would add it again: reduce the partial sum first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/broadcast.hpp>

auto f(tensor_of<2, partial<tp>> const& a, tensor_of<1> const& b) { return a + along<1>(b); }
