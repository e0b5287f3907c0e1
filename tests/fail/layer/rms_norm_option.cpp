// expect: tessera: rms_norm has no such option; it has no_affine, epsilon_of<...>, weight_init<...> and split words
#include "../world.hpp"

#include <tessera/layer/rms_norm.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<rms_norm<8, no_bias>, world, input>;
static_assert(bound::output::rank >= 0);
