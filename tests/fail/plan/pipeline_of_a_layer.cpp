// expect: tessera: a pipeline cuts a chain into stages, and the outermost layer of this model is none; put its layers
// into chain<...>
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

static_assert(pipeline_plan<parallel<linear<8, 4>, pipeline<dp>>, world>::stages == 2);
