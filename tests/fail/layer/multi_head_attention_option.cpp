// expect: tessera: multi_head_attention has no such option; it has causal, no_bias, weight_init<...>, bias_init<...> and split words
#include "../world.hpp"

#include <tessera/layer/multi_head_attention.hpp>

using input = flow<shape<3>{{dynamic, 7, 12}}, placements_of<world, replicated>>;
using bound = bind<multi_head_attention<12, 3, no_affine>, world, input>;
static_assert(bound::output::rank >= 0);
