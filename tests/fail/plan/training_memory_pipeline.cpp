// expect: tessera: training_memory counts all layers of a model, and ranks of a pipeline have those of their stages; leave the pipeline out, or ask host_memory::used()
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/training_memory.hpp>
#include <tessera/train/adam.hpp>

using model = chain<linear<8, 8>, linear<8, 4>>;
static_assert(training_memory<parallel<model, pipeline<dp>>, world>(adam{}).total() > 0);
