// expect: tessera: explain_search explains a search, and this type is none: name auto_parallel_search of the arguments of auto_parallel, or explain the model with explain<Model, Mesh, Machine>()
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>
#include <tessera/plan/explain_search.hpp>

using found = auto_parallel<chain<linear<8, 4>>, input<16, 8>, world, machine::shared_memory>;
const auto broken = explain_search<found>();
