#pragma once

#include <tessera/plan/machine.hpp>

namespace tessera::machine {

/// Servers of 8 Ascend 910B2, each pair joined by HCCS, servers by RoCE. Ranks are devices in the order of their
/// numbers, a server after the other.
struct ascend_910b_server {
  static constexpr machine_description about{
      // 24 cores of 4096 multiplications and additions at 1.8 GHz (platform configuration of CANN 8.1). Products of
      // float32: 87 TFLOP/s measured (github.com/gameofdimension/limulidae), here over the reachable share. No float64.
      .peak = {.float64 = 0, .float32 = 87e12 / 0.93, .float16 = 354e12, .bfloat16 = 354e12},
      .reachable = 328.0 / 354,  // 328 TFLOP/s measured with bfloat16 (the same)
      // An estimate: one tile of 128 x 256 results, 256 deep, on each of the 24 cores.
      .half = 24 * 2.0 * 128 * 256 * 256,
      .bytes_per_second = 1.6e12,  // CANN's migration guide (ops-nn, cross_platform_migration_guide)
      .memory = 64'000'000'000,    // the same
      .launch = 5e-6,              // no figure is known: that of CUDA, see h100_server
      // HCCS is 28 GB/s a pair and direction (Huawei EDOC1100317202); all-gathers of 2, 4 and 8 devices were measured
      // at 38, 64 and 149 GB/s and all-reduces at 18, 30 and 72 (limulidae), which is 2/3 of it: 18.6. RoCE is 200 Gb/s
      // a device (Atlas 800T A2: eight ports of 200GE). Latencies: no figures are known; those of NCCL's tables, see
      // h100_server.
      .levels = {{.ranks = 8, .link = {3.4e-6, 1 / 18.6e9}, .name = "HCCS", .pairs = true},
                 {.ranks = 0, .link = {14e-6, 1 / 25e9}, .name = "RoCE"}}};
};

}  // namespace tessera::machine
