// expect: tessera: the first layer of this model does not tell the extents of its input; name them, as in parallel<model, input<dynamic, 3, 224, 224>>
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/parallel.hpp>

static_assert(plan<chain<relu, linear<8, 4>>, world>::output::rank == 2);
