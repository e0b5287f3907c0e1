// expect: tessera: conv2d has no such split; it has split_batch, split_height, split_width, and split_output and split_input without groups, or split_channels with groups
#include "../world.hpp"

#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<conv2d<8, 8, window<3>, split_channels<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
