// expect: tessera: a stage of a pipeline begins inside a layer of the model; put its mark between the layers of the
// outermost chain
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/pipeline.hpp>

struct unit : chain<linear<8, 8>, stage<1>, relu> {};
static_assert(pipeline_plan<parallel<chain<residual<unit>, linear<8, 4>>, pipeline<dp>>, world>::stages == 2);
