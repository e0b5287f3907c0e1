// expect: tessera: a chain needs at least one layer
#include "../world.hpp"

#include <tessera/layer/chain.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<chain<>, world, input>;
static_assert(bound::output::rank >= 0);
