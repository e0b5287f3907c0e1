// expect: tessera: conv2d takes images [N, C, H, W]; put it before flatten
#include "../world.hpp"

#include <tessera/layer/conv2d.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<conv2d<8, 8, window<3>>, world, input>;
static_assert(bound::output::rank >= 0);
