// expect: tessera: the input of conv2d does not have In channels; make In the channels of what comes before
#include "../world.hpp"

#include <tessera/layer/chain.hpp>
#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 3, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<chain<conv2d<3, 8, window<3>>, conv2d<4, 8, window<3>>>, world, input>;
static_assert(bound::output::rank >= 0);
