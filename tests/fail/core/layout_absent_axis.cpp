// expect: tessera: the mesh lacks this axis; add it to mesh<...> or name another axis
// alone: g++ stops at this error
#include "../world.hpp"

tensor_of<2, shard<0, absent>> x;
