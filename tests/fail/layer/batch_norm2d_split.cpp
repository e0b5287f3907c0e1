// expect: tessera: batch_norm2d has no such split; it has split_batch, split_channels, split_height and split_width
#include "../world.hpp"

#include <tessera/layer/batch_norm2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<batch_norm2d<8, split_output<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
