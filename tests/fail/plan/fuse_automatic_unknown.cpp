// expect: tessera: fuse::automatic_on counts extents that only run time knows as a positive number
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

using policy = fuse::automatic_on<machine::shared_memory, 0>;
static_assert(plan<parallel<linear<8, 4>, data_parallel<dp>, policy>, world>::buckets(4).size() == 2);
