#pragma once

#include <tessera/core/shape.hpp>

#include <algorithm>
#include <atomic>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tessera::detail {

// Threads of one rank, by OpenMP where the program is compiled with it; otherwise the same parts of the same work run
// one after the other. Work is cut by the arguments alone, so results do not depend on how many threads there are in
// the end. Worker threads make no call of MPI and allocate and free no tensors.

/// Elements of plain arithmetic that are worth a part of their own: ten microseconds from the caches, some forty from
/// memory, where starting the threads takes about three. Kernels with more work an element count each as several.
inline constexpr index_t parallel_grain = index_t{1} << 17;

/// How many parts to make of `count` items that cost as much as `cost` elements each: `threads`, fewer where parts
/// would be below the grain, and at least one.
constexpr int parts_for(int threads, index_t count, index_t cost, index_t grain = parallel_grain) {
  if (threads <= 1 || count <= 1) return 1;
  const index_t enough = cost >= grain ? count : count / (grain / std::max<index_t>(cost, 1));
  return static_cast<int>(std::clamp<index_t>(std::min(enough, count), 1, threads));
}

/// Calls `f(part)` for the parts 0 to parts - 1, each on a thread of its own where there are threads; part 0 on the
/// calling one. Called from inside a part, the inner parts run one after the other. Where parts throw, all others still
/// run, and the exception of one goes on.
template <class F>
void run_parts(int parts, F const& f) {
#ifdef _OPENMP
  if (parts > 1 && omp_in_parallel() == 0) {
    std::exception_ptr failure;
    std::atomic_flag failed;
#pragma omp parallel num_threads(parts)
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
      try {
        f(part);
      } catch (...) {
        if (!failed.test_and_set()) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    return;
  }
#endif
  std::exception_ptr failure;
  for (int part = 0; part < parts; ++part) {
    try {
      f(part);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tessera::detail
