// expect: tessera: this is no option of auto_parallel; it has only<split_batch, ...> to search fewer splits, and memory_limit<bytes> and machine_memory<> for plans that fit
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>

using found = auto_parallel_search<chain<linear<8, 4>>, input<16, 8>, world, machine::shared_memory, data_parallel<dp>>;
static_assert(found::time > 0);
