// expect: tessera: padding_of names a row that the embedding does not have; name one below its vocabulary
#include "../world.hpp"

#include <tessera/layer/embedding.hpp>

using input = flow<shape<1>{{dynamic}}, placements_of<world, replicated>>;
using bound = bind<embedding<8, 4, padding_of<8>>, world, input>;
static_assert(bound::output::rank >= 0);
