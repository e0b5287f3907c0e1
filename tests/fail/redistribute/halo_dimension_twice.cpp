// expect: tessera: a halo is exchanged along dimensions that the tensor has; name one or more, each once and below its rank
#include "../world.hpp"

#include <tessera/redistribute/halo.hpp>

auto f(tensor_of<4, shard<2, dp>> const& x) { return exchange_halo<2, 2>(x, {{{3, 1, 1, 1, 1}, {}}}); }
