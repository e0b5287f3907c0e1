// expect: tessera: conv2d needs input and output channels that the number of groups divides; choose another number of groups or of channels
#include "../world.hpp"

#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<conv2d<8, 6, window<3>, groups<4>>, world, input>;
static_assert(bound::output::rank >= 0);
