// expect: tessera: no plan of this model uses only the splits that are allowed, with the words that its layers have; allow more in only<...>
#include "../world.hpp"

#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>

struct table {};
struct model : chain<embedding<32, 8, tied<table>, split_vocabulary<tp>>,
                     linear<8, 32, no_bias, tied<table>, split_input<tp>>> {};
using found = auto_parallel_search<model, input<16, 4>, world, machine::shared_memory>;
static_assert(found::time > 0);
