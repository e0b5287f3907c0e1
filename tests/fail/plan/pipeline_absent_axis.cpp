// expect: tessera: the mesh lacks this axis; add it to mesh<...> or name another axis
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/pipeline.hpp>

static_assert(pipeline_plan<parallel<chain<linear<8, 8>, linear<8, 8>>, pipeline<absent>>, world>::stages == 2);
