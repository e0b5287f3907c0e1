// expect: tessera: the stages of a pipeline are numbered from 0; give this mark its number
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

static_assert(plan<chain<linear<8, 8>, stage<-1>, linear<8, 4>>, world>::output::rank == 2);
