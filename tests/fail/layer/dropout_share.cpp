// expect: tessera: a dropout keeps a share above 0 and up to 1; name the probability that an element is kept
#include "../world.hpp"

#include <tessera/layer/dropout.hpp>

using input = flow<shape<1>{{dynamic}}, placements_of<world, replicated>>;
using bound = bind<dropout<keep_of<std::ratio<3, 2>>>, world, input>;
static_assert(bound::output::rank >= 0 && keep_of<std::ratio<3, 2>>::value > 0);
