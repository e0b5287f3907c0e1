// expect: tessera: this layout uses a mesh axis twice; an axis either cuts one dimension or is partial, once
#include "../world.hpp"

tensor_of<2, layout<shard<0, tp>, partial<tp>>> x;
