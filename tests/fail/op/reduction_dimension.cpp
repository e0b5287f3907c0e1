// expect: tessera: a reduction names dimensions of its tensor in rising order; name none to reduce all
#include "../world.hpp"

#include <tessera/op/reduce.hpp>

auto f(tensor_of<3> const& x) { return op::sum<2, 1>(x); }
