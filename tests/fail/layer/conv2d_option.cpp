// expect: tessera: conv2d has no such option; it has groups<...>, no_bias, weight_init<...>, bias_init<...> and split words
#include "../world.hpp"

#include <tessera/layer/conv2d.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<conv2d<8, 8, window<3>, no_affine>, world, input>;
static_assert(bound::output::rank >= 0);
