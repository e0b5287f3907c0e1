// expect: tessera: a value that is not partial cannot become partial; name shards in the target layout
#include "../world.hpp"

#include <tessera/layer/chain.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relayout.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<chain<linear<8, 4>, partial<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
