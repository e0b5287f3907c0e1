// expect: tessera: a stage of this pipeline has no layer; put one between its mark and the next
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

using model = chain<linear<8, 8>, linear<8, 8>, stage<1>, row<tp>>;
static_assert(pipeline_plan<parallel<model, pipeline<dp>>, world>::stage<1>::place == 2);
