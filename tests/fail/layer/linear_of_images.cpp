// expect: tessera: linear takes inputs of 1, 2, 3 or 5 dimensions; flatten images first
#include "../world.hpp"

#include <tessera/layer/linear.hpp>

using input = flow<shape<4>{{dynamic, 3, 8, 8}}, placements_of<world, replicated>>;
using bound = bind<linear<8, 4>, world, input>;
static_assert(bound::output::rank >= 0);
