// expect: tessera: this model has policies, which a search would lose; search the model inside, and write parallel<...> around auto_parallel_search<...>::model
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>

using data = parallel<chain<linear<8, 4>>, data_parallel<dp>>;
static_assert(auto_parallel_search<data, input<16, 8>, world, machine::shared_memory>::time > 0);
