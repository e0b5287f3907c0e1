// expect: tessera: a layer, a layout word or the input of this model is split along the axis of its pipeline; give the
// pipeline an axis of its own
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

using model = chain<linear<8, 8, split_output<tp>>, linear<8, 8, split_input<tp>>, linear<8, 8>, linear<8, 4>>;
static_assert(pipeline_plan<parallel<model, pipeline<tp>>, world>::axis_is_free);
