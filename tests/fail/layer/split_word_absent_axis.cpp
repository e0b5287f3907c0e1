// expect: tessera: the mesh lacks this axis; add it to mesh<...> or name another axis
#include "../world.hpp"

#include <tessera/layer/linear.hpp>

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<linear<8, 4, split_output<absent>>, world, input>;
static_assert(bound::output::rank >= 0);
