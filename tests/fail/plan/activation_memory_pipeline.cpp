// expect: tessera: activation_memory is of all layers of a model, and ranks of a pipeline have those of their stages; ask training_memory, which counts the passes that are under way too
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/activation_memory.hpp>

using model = parallel<chain<linear<8, 8>, linear<8, 4>>, pipeline<dp>>;
static_assert(activation_memory<model, world, float, input<2, 8>>().kept > 0);
