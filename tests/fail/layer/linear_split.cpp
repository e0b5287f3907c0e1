// expect: tessera: linear has no such split; it has split_batch, split_output and split_input
#include "../world.hpp"

#include <tessera/layer/linear.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<linear<8, 4, split_height<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
