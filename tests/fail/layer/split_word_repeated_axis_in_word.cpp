// expect: tessera: the split words of this layer use a mesh axis twice; an axis cuts one thing of a layer
#include "../world.hpp"

#include <tessera/layer/linear.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<linear<8, 4, split_output<tp, tp>>, world, input>;
static_assert(bound::output::rank >= 0);
