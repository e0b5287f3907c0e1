// expect: tessera: this normalisation has no such split; it has split_batch, split_sequence and split_features, and of images split_channels, split_height and split_width
#include "../world.hpp"

#include <tessera/layer/layer_norm.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<layer_norm<8, split_output<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
