#pragma once

#include <tessera/plan/machine.hpp>

namespace tessera::machine {

/// Servers of 8 NVIDIA A100 SXM of 80 GB joined by NVLink through switches, servers by InfiniBand with an adapter for
/// each device. Ranks are devices in the order of their numbers, a server after the other.
struct a100_server {
  static constexpr machine_description about{
      // The data sheet's dense rates: 19.5 TFLOP/s of float64 with tensor cores and of float32 without (in full
      // precision), 312 of float16 and bfloat16.
      .peak = {.float64 = 19.5e12, .float32 = 19.5e12, .float16 = 312e12, .bfloat16 = 312e12},
      .reachable = 0.87,  // an estimate: what the largest products are commonly measured at
      // An estimate: one tile of 128 x 256 results, 256 deep, on each of the 108 multiprocessors.
      .half = 108 * 2.0 * 128 * 256 * 256,
      .bytes_per_second = 2.039e12,  // the data sheet
      .memory = 80'000'000'000,      // the same
      .launch = 5e-6,                // as that of h100_server
      // The data sheet: NVLink 300 GB/s each way. DGX A100: eight adapters of 200 Gb/s. Latencies: see h100_server.
      .levels = {{.ranks = 8, .link = {3.4e-6, 1 / 300e9}, .name = "NVLink"},
                 {.ranks = 0, .link = {14e-6, 1 / 25e9}, .name = "InfiniBand"}}};
};

}  // namespace tessera::machine
