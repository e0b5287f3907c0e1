// expect: tessera: a search has one memory limit; state one memory_limit<...> or machine_memory<...>
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>

using found = auto_parallel_search<chain<linear<8, 4>>, input<16, 8>, world, machine::shared_memory,
                                   memory_limit<1'000'000>, machine_memory<>>;
static_assert(found::time > 0);
