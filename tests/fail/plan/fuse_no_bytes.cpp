// expect: tessera: fuse::bytes needs a positive size; use fuse::each for no fusion
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

static_assert(plan<parallel<linear<8, 4>, data_parallel<dp>, fuse::bytes<0>>, world>::buckets(4).size() == 2);
