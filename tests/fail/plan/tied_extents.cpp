// expect: tessera: parameters that are tied by one name have different extents or layouts
#include "../world.hpp"

#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

struct words;
using model = parallel<chain<embedding<20, 8, tied<words>>, linear<8, 20, no_bias, split_output<tp>, tied<words>>>,
                       input<dynamic>>;
static_assert(plan<model, world>::trainable().size() == 2);
