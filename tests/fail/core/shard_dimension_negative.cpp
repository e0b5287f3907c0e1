// expect: tessera: shard names a dimension from 0 to 5
#include "../world.hpp"

shard<-1, tp> word;
