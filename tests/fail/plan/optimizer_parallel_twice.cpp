// expect: tessera: a parallel model has one optimizer_parallel policy; name its axes in one, as in optimizer_parallel<axis_list<dp, sp>, 2>
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

using model = parallel<linear<8, 4>, data_parallel<dp, tp>, optimizer_parallel<dp, 1>, optimizer_parallel<tp, 1>>;
static_assert(plan<model, world>::level == 1);
