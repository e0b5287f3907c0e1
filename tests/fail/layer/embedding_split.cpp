// expect: tessera: embedding has no such split; it has split_batch, split_sequence, split_vocabulary and split_features
#include "../world.hpp"

#include <tessera/layer/embedding.hpp>

using input = flow<shape<1>{{dynamic}}, placements_of<world, replicated>>;
using bound = bind<embedding<8, 4, split_output<tp>>, world, input>;
static_assert(bound::output::rank >= 0);
