// expect: tessera: a halo exchange gives kernels true values, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/redistribute/halo.hpp>

auto f(tensor_of<4, layout<shard<2, dp>, partial<tp>>> const& x) { return start_halo<2>(x, {{{3, 1, 1, 1, 1}}}); }
