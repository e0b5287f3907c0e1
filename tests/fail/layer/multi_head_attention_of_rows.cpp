// expect: tessera: multi_head_attention takes sequences [B, S, Features]; reshape the input
#include "../world.hpp"

#include <tessera/layer/multi_head_attention.hpp>

using input = flow<shape<2>{{dynamic, 12}}, placements_of<world, replicated>>;
using bound = bind<multi_head_attention<12, 3>, world, input>;
static_assert(bound::output::rank >= 0);
