// expect: tessera: shard names at least one mesh axis; leave it out to replicate
#include "../world.hpp"

tensor_of<2, shard<0>> x;
