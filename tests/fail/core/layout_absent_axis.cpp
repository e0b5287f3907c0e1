// expect: tessera: the mesh lacks this axis; add it to mesh<...> or name another axis
#include "../world.hpp"

tensor_of<2, shard<0, absent>> x;
