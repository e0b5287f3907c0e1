#pragma once

#include <tessera/plan/machine.hpp>

namespace tessera::machine {

/// Ranks on one host, a core each, that send through its memory: rounded figures of a server core with wide vectors and
/// of reductions by MPI. The order of magnitude is what plans need; describe a machine of your own for more.
struct shared_memory {
  static constexpr machine_description about{
      // A core with AVX-512 multiplies matrices at 160 to 265 GFLOP/s in float32; numbers of 16 bits it computes in
      // float32.
      .peak = {.float64 = 5e10, .float32 = 1e11, .float16 = 1e11, .bfloat16 = 1e11},
      .bytes_per_second = 1e10,
      .memory = index_t{4} << 30,
      .levels = {{.ranks = 0, .link = {.latency = 1e-5, .seconds_per_byte = 5e-10}, .name = "memory"}}};
};

}  // namespace tessera::machine
