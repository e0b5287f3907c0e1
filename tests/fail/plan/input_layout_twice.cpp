// expect: tessera: a parallel model has one layout of its input; name the axes of the batch in it too, as in input_layout<shard<0, dp>, shard<2, sp>>
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

using twice = parallel<linear<8, 4>, data_parallel<dp>, input_layout<shard<1, tp>>>;
static_assert(plan<twice, world>::output::rank == 2);
