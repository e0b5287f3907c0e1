// expect: tessera: an interleaved schedule has two chunks or more on each device; for one, name
// one_forward_one_backward
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

static_assert(
    pipeline_plan<parallel<chain<linear<8, 8>, linear<8, 8>>, pipeline<dp, interleaved<1>>>, world>::chunk_of(1) == 1);
