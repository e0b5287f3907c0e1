// expect: tessera: a split word names at least one mesh axis; leave the word out instead
#include "../world.hpp"

#include <tessera/layer/linear.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<linear<8, 4, split_output<>>, world, input>;
static_assert(bound::output::rank >= 0);
