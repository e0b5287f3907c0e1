// expect: tessera: the input of batch_norm2d does not have C channels; give it the channels of the layer before
// C36
#include "../world.hpp"

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 3, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<chain<conv2d<3, 36, window<3>>, batch_norm2d<18>>, world, input>;
static_assert(bound::output::rank >= 0);
