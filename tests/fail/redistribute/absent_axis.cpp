// expect: tessera: the mesh lacks this axis; add it to mesh<...> or name another axis
// alone: g++ stops at this error
#include "../world.hpp"

#include <tessera/redistribute/to.hpp>

auto scatter(tensor_of<2> const& x) { return x | to<shard<0, absent>>; }
