// expect: tessera: multi_head_attention has no such split; it has split_batch, split_heads and split_sequence
#include "../world.hpp"

#include <tessera/layer/multi_head_attention.hpp>

using input = flow<shape<3>{{dynamic, 7, 12}}, placements_of<world, replicated>>;
using bound = bind<multi_head_attention<12, 3, split_output<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
