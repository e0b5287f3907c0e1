// expect: tessera: the marks of this model make another number of stages than its pipeline has: one for each device
// along its axis, for each chunk of an interleaved schedule; add or remove stage<N> marks, or change the axis
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

using model = chain<linear<8, 8>, linear<8, 8>, linear<8, 8>, stage<1>, linear<8, 8>>;
static_assert(pipeline_plan<parallel<model, pipeline<dp, interleaved<2>>>, world>::stages == 4);
