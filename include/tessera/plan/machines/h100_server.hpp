#pragma once

#include <tessera/plan/machine.hpp>

namespace tessera::machine {

/// Servers of 8 NVIDIA H100 SXM joined by NVLink through switches, servers by InfiniBand with an adapter for each
/// device. Ranks are devices in the order of their numbers, a server after the other.
struct h100_server {
  static constexpr machine_description about{
      // The data sheet's dense rates: 67 TFLOP/s of float64 with tensor cores and of float32 without (in full
      // precision), 989 of float16 and bfloat16.
      .peak = {.float64 = 67e12, .float32 = 67e12, .float16 = 989e12, .bfloat16 = 989e12},
      .reachable = 0.80,  // 792 TFLOP/s, the most of many shapes (S. Bekman, "Machine Learning Engineering", 2024)
      // An estimate: one tile of 128 x 256 results, 256 deep, on each of the 132 multiprocessors.
      .half = 132 * 2.0 * 128 * 256 * 256,
      .bytes_per_second = 3.35e12,  // the data sheet
      .memory = 80'000'000'000,     // the same
      .launch = 5e-6,               // 4 to 6 microseconds a submission, as commonly measured
      // The data sheet: NVLink 450 GB/s each way. DGX H100: eight ConnectX-7 of 400 Gb/s. Latencies of a step: NCCL's
      // tables for the ring algorithm with the simple protocol (src/graph/tuning.cc).
      .levels = {{.ranks = 8, .link = {3.4e-6, 1 / 450e9}, .name = "NVLink"},
                 {.ranks = 0, .link = {14e-6, 1 / 50e9}, .name = "InfiniBand"}}};
};

}  // namespace tessera::machine
