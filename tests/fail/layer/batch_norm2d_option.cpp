// expect: tessera: batch_norm2d has no such option; it has no_affine, momentum_of<...>, epsilon_of<...>, weight_init<...> and split words
#include "../world.hpp"

#include <tessera/layer/batch_norm2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<batch_norm2d<8, no_bias>, world, input>;
static_assert(bound::output::rank >= 0);
