// expect: tessera: this pooling has no such split; it has split_batch, split_channels, split_height and split_width
#include "../world.hpp"

#include <tessera/layer/pool2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 8, 8}}, placements_of<world, replicated>>;
using bound = bind<max_pool2d<window<2, 2>, split_output<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
