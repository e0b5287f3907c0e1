// expect: tessera: the outermost chain of this model has fewer layers than its pipeline has stages; use a shorter axis
// or fewer chunks, or take its blocks apart
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

using model = chain<linear<8, 8>, row<dp>, linear<8, 8>, linear<8, 4>>;
static_assert(pipeline_plan<parallel<model, pipeline<tp>>, world>::stages == 4);
