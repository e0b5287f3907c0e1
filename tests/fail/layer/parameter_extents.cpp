// expect: tessera: a parameter has positive extents; correct the sizes of its layer
#include "../world.hpp"

#include <tessera/layer/linear.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<linear<8, 0>, world, input>;
static_assert(bound::output::rank >= 0);
