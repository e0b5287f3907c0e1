// expect: tessera: linear has no such split; it has split_batch, split_output and split_input
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>

using split = chain<linear<8, 4, split_heads<tp>>>;
static_assert(auto_parallel_search<split, input<16, 8>, world, machine::shared_memory>::time > 0);
