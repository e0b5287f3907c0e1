// expect: tessera: the mesh lacks this axis; add it to mesh<...> or name another axis
#include "../world.hpp"

#include <tessera/layer/chain.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relayout.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<chain<linear<8, 4>, cut_along<1, absent>>, world, input>;
static_assert(bound::output::rank >= 0);
