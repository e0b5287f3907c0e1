// expect: tessera: avg_pool2d has no dilation; leave it out of the window
#include "../world.hpp"

#include <tessera/layer/pool2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<avg_pool2d<window<3, 1, 0, 2>>, world, input>;
static_assert(bound::output::rank >= 0);
