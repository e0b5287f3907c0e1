// expect: tessera: flatten merges dimensions from Start to End; name dimensions that the tensor has
#include "../world.hpp"

#include <tessera/op/flatten.hpp>

auto f(tensor_of<2> const& x) { return op::flatten<1, 2>(x); }
