// expect: tessera: this layout cuts a dimension that the tensor does not have; name a dimension below its rank
#include "../world.hpp"

#include <tessera/redistribute/to.hpp>

auto scatter(tensor_of<2> const& x) { return x | to<shard<2, tp>>; }
