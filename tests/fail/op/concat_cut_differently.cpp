// expect: tessera: concat puts tensors of one type behind each other: bring them to one layout with x | tessera::to<...>; a whole tensor beside a partial sum would be added once a rank
#include "../world.hpp"

#include <tessera/op/concat.hpp>

auto f(tensor_of<2, partial<tp>> const& a, tensor_of<2> const& b) { return op::concat<0>(a, b); }
