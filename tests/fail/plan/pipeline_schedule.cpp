// expect: tessera: this is no schedule of a pipeline; name gpipe, one_forward_one_backward or interleaved<Chunks>, or
// give a type of your own the members chunks and actions
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

static_assert(pipeline_plan<parallel<chain<linear<8, 8>, linear<8, 4>>, pipeline<dp, tp>>, world>::stages == 2);
