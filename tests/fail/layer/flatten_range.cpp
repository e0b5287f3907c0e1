// expect: tessera: flatten merges dimensions from Start to End; name dimensions that the input has
#include "../world.hpp"

#include <tessera/layer/flatten.hpp>

using input = flow<shape<4>{{dynamic, 8, 9, 9}}, placements_of<world, replicated>>;
using bound = bind<tessera::flatten<1, 4>, world, input>;
static_assert(bound::output::rank >= 0);
