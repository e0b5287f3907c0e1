// expect: tessera: layers of different stages share a parameter, which optimizer_parallel cannot cut; leave the policy out, or give each stage a parameter of its own
#include "../world.hpp"

#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/pipeline.hpp>
#include <tessera/train/session.hpp>

struct words;
using model = chain<embedding<16, 8, tied<words>>, stage<1>, linear<8, 16, no_bias, tied<words>>>;
using network_type = network<parallel<model, input<dynamic>, data_parallel<tp>, optimizer_parallel<tp, 1>, pipeline<dp>>,
                             team<world, serial_comm>, float>;
static_assert(sizeof(network_type) > 0);
