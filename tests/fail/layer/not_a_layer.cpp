// expect: tessera: this is no layer: it lacks the members `words`, `parameters` or `rules`; name a layer, or see layer/concept.hpp for what a layer of your own needs
#include "../world.hpp"

#include <tessera/layer/chain.hpp>
#include <tessera/layer/linear.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<chain<linear<8, 4>, int>, world, input>;
static_assert(bound::output::rank >= 0);
