// expect: tessera: this machine has a link whose latency or seconds_per_byte is negative
#include "../world.hpp"

#include <tessera/plan/machine.hpp>

struct cluster {
  static constexpr machine_description about{.peak = {.float64 = 0, .float32 = 1e9, .float16 = 0, .bfloat16 = 0},
                                             .bytes_per_second = 1e9,
                                             .memory = 1,
                                             .levels = {{.ranks = 0, .link = {-1, 1e-9}, .name = "net"}}};
};
static_assert(description_of<cluster>.memory == 1);
