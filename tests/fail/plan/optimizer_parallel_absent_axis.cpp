// expect: tessera: the mesh lacks this axis; add it to mesh<...> or name another axis
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

static_assert(plan<parallel<linear<8, 4>, data_parallel<dp>, optimizer_parallel<absent, 1>>, world>::sharing(4).level == 1);
