#pragma once

#include <tessera/comm/mpi_hosts.hpp>
#include <tessera/core/memory.hpp>
#include <tessera/core/partition.hpp>

#include <cstddef>
#include <vector>

namespace tessera::detail {

/// An all-reduce of at most 2^31 - 1 elements over several hosts: reduce-scatter inside each, all-reduce of the shares
/// across, all-gather inside. What crosses is, for each lane, one message of its share.
template <class T>
void all_reduce_by_level(mpi_hosts const& hosts, T* data, index_t count, MPI_Datatype type, MPI_Op op) {
  int ranks = 0;
  check_mpi(MPI_Comm_size(hosts.inside(), &ranks), "MPI_Comm_size");
  std::vector<int> counts;
  std::vector<int> begins;
  for (int p = 0; p < ranks; ++p) {
    const interval share = p < hosts.lanes() ? cut({0, count}, hosts.lanes(), p) : interval{0, 0};
    counts.push_back(static_cast<int>(share.size));
    begins.push_back(static_cast<int>(share.begin));
  }
  const int own = counts[static_cast<std::size_t>(hosts.position())];
  const memory_handle memory = host_memory::allocate(static_cast<std::size_t>(own) * sizeof(T));
  T* share = not_null(static_cast<T*>(memory.get()));
  check_mpi(MPI_Reduce_scatter(data, share, counts.data(), type, op, hosts.inside()), "MPI_Reduce_scatter");
  if (own > 0) check_mpi(MPI_Allreduce(MPI_IN_PLACE, share, own, type, op, hosts.across()), "MPI_Allreduce");
  check_mpi(MPI_Allgatherv(share, own, type, data, counts.data(), begins.data(), type, hosts.inside()),
            "MPI_Allgatherv");
}

}  // namespace tessera::detail
