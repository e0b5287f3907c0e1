// expect: tessera: this is no policy of a parallel model; it takes input<...>, data_parallel<...> and one of fuse::at, fuse::bytes, fuse::all and fuse::each
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

static_assert(plan<parallel<linear<8, 4>, dp>, world>::output::rank == 2);
