// expect: tessera: this layout cuts a dimension that the tensor does not have; name a dimension below its rank
#include "../world.hpp"

#include <tessera/layer/chain.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relayout.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<chain<linear<8, 4>, cut_along<2, dp>>, world, input>;
static_assert(bound::output::rank >= 0);
