// expect: tessera: a normalisation runs over the last one to three dimensions of its input; reshape the input, or name fewer
#include "../world.hpp"

#include <tessera/op/layer_norm.hpp>

auto f(tensor_of<2> const& x) { return op::layer_norm<3>(x); }
