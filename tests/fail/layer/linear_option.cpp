// expect: tessera: linear has no such option; it has no_bias, weight_init<...>, bias_init<...>, tied<...> and split words
#include "../world.hpp"

#include <tessera/layer/linear.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<linear<8, 4, no_affine>, world, input>;
static_assert(bound::output::rank >= 0);
