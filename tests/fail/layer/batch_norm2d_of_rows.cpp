// expect: tessera: batch_norm2d takes images [N, C, H, W]; put it before flatten
#include "../world.hpp"

#include <tessera/layer/batch_norm2d.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<batch_norm2d<8>, world, input>;
static_assert(bound::output::rank >= 0);
