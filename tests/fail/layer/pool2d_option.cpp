// expect: tessera: poolings have no such option; they have ceil_mode, exclude_padding and split words
#include "../world.hpp"

#include <tessera/layer/pool2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 8, 8}}, placements_of<world, replicated>>;
using bound = bind<max_pool2d<window<2, 2>, no_bias>, world, input>;
static_assert(bound::output::rank >= 0);
