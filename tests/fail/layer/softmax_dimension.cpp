// expect: tessera: softmax runs along a dimension that the tensor does not have; name one from 0 to its rank - 1, or from the end as -1
#include "../world.hpp"

#include <tessera/layer/softmax.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<softmax<2>, world, input>;
static_assert(bound::output::rank >= 0);
