#pragma once

#include <tessera/plan/machine.hpp>

namespace tessera::machine {

/// Two levels.
struct written {
  static constexpr machine_description about{
      .peak = {.float64 = 5e+10, .float32 = 1.062e+11, .float16 = 0, .bfloat16 = 0},
      .reachable = 0.5,
      .half = 2.5e+06,
      .bytes_per_second = 3e+10,
      .memory = 8589934592,
      .launch = 2.5e-07,
      .speeds = {.convolutions = 1.25, .attention = 0.75, .maps = 0.5, .functions = 0.25, .norms = 0.125,
                 .pooling = 2, .updates = 4},
      .levels = {{.ranks = 4, .link = {.latency = 1e-06, .seconds_per_byte = 2e-10},
                  .name = "memory", .pairs = false, .buckets = 8},
                 {.ranks = 0, .link = {.latency = 1e-05, .seconds_per_byte = 1e-09},
                  .name = "network", .pairs = true, .buckets = 1}}};
};

}  // namespace tessera::machine
