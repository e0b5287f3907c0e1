// expect: tessera: poolings take images [N, C, H, W]; put them before flatten
#include "../world.hpp"

#include <tessera/layer/pool2d.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<global_avg_pool<>, world, input>;
static_assert(bound::output::rank >= 0);
