// expect: tessera: this parallel model is made of another one, whose policies would be lost; name all policies in one, as in parallel<model, data_parallel<dp>, optimizer_parallel<dp, 2>>
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

using model = parallel<linear<8, 4>, data_parallel<dp>>;
static_assert(plan<parallel<model, optimizer_parallel<dp, 2>>, world>::level == 2);
