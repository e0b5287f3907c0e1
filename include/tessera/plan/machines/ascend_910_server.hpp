#pragma once

#include <tessera/plan/machine.hpp>

namespace tessera::machine {

/// Servers of 8 Ascend 910 (910A): two groups of 4, each pair of a group joined by HCCS, the groups by PCIe, servers by
/// RoCE. Ranks are devices in the order of their numbers, a server after the other.
struct ascend_910_server {
  static constexpr machine_description about{
      // 32 cores of 4096 multiplications and additions at 1 GHz (platform configuration of CANN 8.1): 262, sold as 256
      // TFLOP/s. Products of float32 are computed in float16 (cubeMathType 1); there is no bfloat16 and no float64.
      .peak = {.float64 = 0, .float32 = 256e12, .float16 = 256e12, .bfloat16 = 0},
      .reachable = 0.93,  // as measured on the 910B (see there); no figure of the 910 is known
      // An estimate: one tile of 128 x 256 results, 256 deep, on each of the 32 cores.
      .half = 32 * 2.0 * 128 * 256 * 256,
      .bytes_per_second = 1.2e12,  // HBM2 (Linley Group 2019; H. Liao et al., HPCA 2021)
      .memory = 32'000'000'000,    // the same
      .launch = 5e-6,              // no figure is known: that of CUDA, see h100_server
      // Bandwidths: Hot Chips 31 and H. Liao et al., HPCA 2021: each device has three HCCS ports of 240 Gb/s, one for
      // each other of its group, and PCIe 4.0 x16; RoCE is 100 Gb/s a device in the server (USENIX ATC 2025, "Hermes").
      // Latencies: no figures are known; those of NCCL's tables for links of such kinds, see h100_server.
      .levels = {{.ranks = 4, .link = {3.4e-6, 1 / 30e9}, .name = "HCCS", .pairs = true},
                 {.ranks = 8, .link = {5.7e-6, 1 / 32e9}, .name = "PCIe"},
                 {.ranks = 0, .link = {14e-6, 1 / 12.5e9}, .name = "RoCE"}}};
};

}  // namespace tessera::machine
