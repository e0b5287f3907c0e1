// expect: tessera: no gradient of this model is a sum over an axis of its optimizer_parallel, so the ranks along it hold no parameters in common; name an axis that cuts the batch
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

using model = parallel<linear<8, 4, split_output<tp>>, data_parallel<dp>, optimizer_parallel<axis_list<dp, tp>, 2>>;
static_assert(plan<model, world>::sharing(4).level == 2);
