// expect: tessera: conv2d takes a window after its channels; write conv2d<In, Out, window<3>> or window2d<...>
#include "../world.hpp"

#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<conv2d<8, 8, groups<2>>, world, input>;
static_assert(bound::output::rank >= 0);
