// expect: tessera: the input of multi_head_attention does not have its Features; make them the last extent of what comes before
#include "../world.hpp"

#include <tessera/layer/multi_head_attention.hpp>

using input = flow<shape<3>{{dynamic, 7, 12}}, placements_of<world, replicated>>;
using bound = bind<multi_head_attention<16, 4>, world, input>;
static_assert(bound::output::rank >= 0);
