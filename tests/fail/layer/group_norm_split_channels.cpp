// expect: tessera: a split word cuts groups unevenly; choose a number of parts that divides the number of groups
#include "../world.hpp"

#include <tessera/layer/group_norm.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<group_norm<2, 8, split_channels<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
