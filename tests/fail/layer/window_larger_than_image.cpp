// expect: tessera: the window is larger than the padded image; make the window smaller, or the image or its padding larger
#include "../world.hpp"

#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 5, 5}}, placements_of<world, replicated>>;
using bound = bind<conv2d<8, 8, window<7, 2>>, world, input>;
static_assert(bound::output::rank >= 0);
