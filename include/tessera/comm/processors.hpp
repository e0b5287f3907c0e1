#pragma once

#include <tessera/comm/mpi.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

namespace tessera {

/// How many processors a rank has, where each is shared evenly by the ranks that may run on it: `ranks_on_processor`
/// has an entry for each processor that this rank may use. At least 1.
///
/// Two ranks on the same 8 processors have 4 each; a rank that is bound to 8 of its own has 8.
inline int share_of_processors(std::span<int const> ranks_on_processor) {
  double share = 0;
  for (const int ranks : ranks_on_processor) share += 1.0 / std::max(ranks, 1);
  return std::max(1, static_cast<int>(share + 1e-6));  // 3 thirds are 1
}

namespace detail {

/// For each processor of the machine 1 where this process may run on it, else 0.
inline std::vector<int> own_processors() {
  constexpr std::size_t most = 8192;  // of the Linux kernel
  std::vector<int> own(most);
#ifdef __linux__
  constexpr std::size_t bytes = CPU_ALLOC_SIZE(most);
  std::vector<cpu_set_t> set(bytes / sizeof(cpu_set_t) + 1);
  if (sched_getaffinity(0, bytes, set.data()) == 0) {
    for (std::size_t p = 0; p < most; ++p) own[p] = CPU_ISSET_S(p, bytes, set.data()) ? 1 : 0;
    return own;
  }
#endif
  std::fill_n(own.begin(), std::min<std::size_t>(most, std::thread::hardware_concurrency()), 1);
  return own;
}

/// This rank's share of the processors of its machine among the ranks of `group`. Collective.
inline int processors_of_rank(MPI_Comm group) {
  MPI_Comm handle = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(group, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &handle), "MPI_Comm_split_type");
  const mpi_group here(handle);
  const std::vector<int> own = own_processors();
  std::vector<int> ranks = own;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, ranks.data(), static_cast<int>(ranks.size()), MPI_INT, MPI_SUM, here.get()),
            "MPI_Allreduce");
  std::vector<int> usable;
  for (std::size_t p = 0; p < own.size(); ++p)
    if (own[p] == 1) usable.push_back(ranks[p]);
  return share_of_processors(usable);
}

}  // namespace detail
}  // namespace tessera
