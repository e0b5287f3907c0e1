// expect: tessera: the window is larger than the padded image; make the window smaller, or the image or its padding larger
#include "../world.hpp"

#include <tessera/layer/pool2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 3, 3}}, placements_of<world, replicated>>;
using bound = bind<max_pool2d<window<4, 2>>, world, input>;
static_assert(bound::output::rank >= 0);
