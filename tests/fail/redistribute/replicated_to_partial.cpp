// expect: tessera: a value that is not partial cannot become partial; name shards in the target layout
#include "../world.hpp"

#include <tessera/redistribute/to.hpp>

auto scatter(tensor_of<2> const& x) { return x | to<partial<tp>>; }
