// expect: tessera: a whole tensor cannot be distributed as a partial value; name shards only
#include "../world.hpp"

auto spread(here& context, tensor<float, 2> const& whole) { return distribute<partial<tp>>(context, whole); }
