// expect: tessera: multi_head_attention needs a number of features that the number of heads divides; choose another number of heads or of features
#include "../world.hpp"

#include <tessera/layer/multi_head_attention.hpp>

using input = flow<shape<3>{{dynamic, 7, 12}}, placements_of<world, replicated>>;
using bound = bind<multi_head_attention<12, 5>, world, input>;
static_assert(bound::output::rank >= 0);
