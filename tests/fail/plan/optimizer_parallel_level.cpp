// expect: tessera: optimizer_parallel has the levels 1 (optimizer state), 2 (also gradients) and 3 (also parameters); name one of these
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

static_assert(plan<parallel<linear<8, 4>, data_parallel<dp>, optimizer_parallel<dp, 4>>, world>::level == 4);
