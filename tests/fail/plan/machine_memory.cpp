// expect: tessera: this machine has no memory or no bandwidth of it
#include "../world.hpp"

#include <tessera/plan/machine.hpp>

struct cluster {
  static constexpr machine_description about{.peak = {.float64 = 0, .float32 = 1e9, .float16 = 0, .bfloat16 = 0},
                                             .bytes_per_second = 0,
                                             .memory = 1,
                                             .levels = {{.ranks = 0, .link = {1e-5, 1e-9}, .name = "net"}}};
};
static_assert(description_of<cluster>.memory == 1);
