// expect: tessera: the input of a model is cut along dimensions that it has, or replicated, never partial; name shard<Dim, Axis> words with Dim below the number of extents
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

static_assert(plan<parallel<linear<8, 4>, input_layout<shard<2, tp>>>, world>::output::rank == 2);
