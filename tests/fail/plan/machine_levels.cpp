// expect: tessera: this machine has no levels of links, or one whose groups are not made of whole groups
#include "../world.hpp"

#include <tessera/plan/machine.hpp>

struct cluster {
  static constexpr machine_description about{
      .peak = {.float64 = 0, .float32 = 1e9, .float16 = 0, .bfloat16 = 0},
      .bytes_per_second = 1e9,
      .memory = 1,
      .levels = {{.ranks = 4, .link = {1e-6, 1e-9}, .name = "box"}, {.ranks = 6, .link = {1e-5, 1e-9}, .name = "net"}}};
};
static_assert(description_of<cluster>.memory == 1);
