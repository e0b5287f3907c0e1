// expect: tessera: the number of groups of group_norm does not divide the number of channels; choose another
#include "../world.hpp"

#include <tessera/layer/group_norm.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<group_norm<3, 8>, world, input>;
static_assert(bound::output::rank >= 0);
