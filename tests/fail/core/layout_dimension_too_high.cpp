// expect: tessera: this layout cuts a dimension that the tensor does not have; name a dimension below its rank
#include "../world.hpp"

tensor_of<2, shard<2, tp>> x;
