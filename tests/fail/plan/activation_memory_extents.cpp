// expect: tessera: the memory of activations needs all extents of the input, and some of this model only run time knows; name them: the last argument is input<32, 3, 224, 224>, say
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/activation_memory.hpp>

static_assert(activation_memory<linear<8, 4>, world>().kept > 0);
