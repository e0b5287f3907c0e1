// expect: tessera: a window has a positive size, stride and dilation, and a padding of 0 or more; correct its numbers
#include "../world.hpp"

#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<conv2d<8, 8, window<3, 0>>, world, input>;
static_assert(bound::output::rank >= 0);
