// expect: tessera: the stages of this model are not numbered in order; write stage<1>, stage<2> and so on, each once
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

using model = chain<linear<8, 8>, stage<2>, linear<8, 8>, stage<1>, linear<8, 4>>;
static_assert(pipeline_plan<parallel<model, pipeline<dp>>, world>::stages == 2);
