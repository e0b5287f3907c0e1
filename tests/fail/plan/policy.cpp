// expect: tessera: this is no policy of a parallel model; it takes input<...>, one of data_parallel<...> and input_layout<...>, one of fuse::at, fuse::bytes, fuse::all, fuse::each and fuse::automatic, optimizer_parallel<...>, and pipeline<...>
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

static_assert(plan<parallel<linear<8, 4>, dp>, world>::output::rank == 2);
