// expect: tessera: a memory limit is 1 byte or more; state what a device may keep
// expect: tessera: a search may use from 1 to 100 percent of a device's memory; state such a share
#include "../world.hpp"

#include <tessera/plan/auto_parallel.hpp>

static_assert(sizeof(memory_limit<0>) > 0);
static_assert(sizeof(machine_memory<void, 120>) > 0);
