// expect: tessera: a value that is not partial cannot be added to a partial sum, every rank would add it again: reduce the partial sum first
#include "../world.hpp"

#include <tessera/op/elementwise.hpp>

auto f(tensor_of<2, partial<tp>> const& a, tensor_of<2> const& b) { return a - b; }
