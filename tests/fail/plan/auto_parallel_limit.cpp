// expect: tessera: no plan of this model fits the memory limit; no_plan_fits<...> names the missing bytes, the nearest limit that a plan fits, and the layer that keeps most in it
// expect: missing<
// expect: nearest_limit<
// expect: largest_layer<
// expect: linear<64, 512>
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>

using found = auto_parallel_search<chain<linear<16, 64>, linear<64, 512>>, input<16, 16>, world,
                                   machine::shared_memory, memory_limit<30'000>>;
static_assert(found::time > 0);
