// expect: tessera: a split word cuts groups unevenly; choose a number of parts that divides the number of groups
// C28: four parts of six groups are one and a half groups each.
#include "../world.hpp"

#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 6, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<conv2d<6, 6, window<3>, groups<6>, split_channels<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
