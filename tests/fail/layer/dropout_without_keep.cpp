// expect: tessera: dropout names the share that it keeps, as in dropout<keep_of<std::ratio<9, 10>>>
#include "../world.hpp"

#include <tessera/layer/dropout.hpp>

using input = flow<shape<1>{{dynamic}}, placements_of<world, replicated>>;
using bound = bind<dropout<std::ratio<9, 10>>, world, input>;
static_assert(bound::output::rank >= 0);
