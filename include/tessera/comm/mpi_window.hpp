#pragma once

#include <tessera/comm/mpi_call.hpp>
#include <tessera/core/memory.hpp>

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

namespace tessera::detail {

/// How many bytes of `free` ones are missing for a window of `bytes` for each of `ranks`; 0 where there are enough. MPI
/// libraries take whole pages and some for themselves, and want a twentieth to spare.
inline std::int64_t shared_bytes_missing(std::uint64_t free, int ranks, std::size_t bytes) {
  constexpr std::uint64_t page = 4096;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const std::uint64_t all = static_cast<std::uint64_t>(ranks);
  if (bytes > most / 2 / all - 2 * page) return static_cast<std::int64_t>(most);
  const std::uint64_t wanted = all * ((bytes + page - 1) / page + 1) * page;
  return static_cast<std::int64_t>(std::max(wanted + wanted / 20, free) - free);
}

/// The bytes that /dev/shm has left; the largest number where it is not known, or not where windows lie.
inline std::uint64_t free_shared_bytes() {
  constexpr auto unknown = std::numeric_limits<std::uint64_t>::max();
  constexpr char const* place = "/dev/shm";
  struct statvfs room {};
  if (std::getenv("OMPI_MCA_osc_sm_backing_directory") != nullptr) return unknown;
  if (access(place, W_OK) != 0 || statvfs(place, &room) != 0) return unknown;
  return static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
}

/// Throws on all ranks of `group` where a host lacks room for a window of `bytes` for each of its `ranks`. Collective.
/// MPI libraries find that out on one rank, and leave the others waiting for it.
inline void check_shared_memory(MPI_Comm group, MPI_Comm ranks, std::size_t bytes) {
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(ranks, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(ranks, &size), "MPI_Comm_size");
  check_mpi(MPI_Barrier(ranks), "MPI_Barrier");  // windows that were freed before are gone on all ranks
  std::int64_t missing = rank == 0 ? shared_bytes_missing(free_shared_bytes(), size, bytes) : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &missing, 1, MPI_INT64_T, MPI_MAX, group), "MPI_Allreduce");
  if (missing > 0)
    throw error("no shared memory of " + std::to_string(bytes) + " bytes for each rank of a host: /dev/shm lacks " +
                    std::to_string(missing) + " bytes",
                "room for all ranks of each host",
                "make /dev/shm larger (containers: --shm-size), or set shared_memory of mpi_options to false");
}

/// A block of memory for each rank of a host, all within reach of each of them: an MPI-3 shared-memory window.
///
/// It is the source of handles on this rank's block. Freeing is collective and thus apart from the last handle's end.
class mpi_window final : public memory_handle::source {
 public:
  /// `bytes` for each of `ranks`, which share memory; contents arbitrary. Collective over `group`, where `ranks` are
  /// those of this host. Throws on all of them where a host lacks room.
  mpi_window(MPI_Comm group, MPI_Comm ranks, std::size_t bytes) : bytes_(bytes) {
    const auto room = static_cast<MPI_Aint>(bytes + host_memory::alignment);
    check_shared_memory(group, ranks, static_cast<std::size_t>(room));
    MPI_Info info = MPI_INFO_NULL;
    check_mpi(MPI_Info_create(&info), "MPI_Info_create");
    // Pages of its own for each rank, near the processor that writes them first.
    check_mpi(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
    void* own = nullptr;
    const int code = MPI_Win_allocate_shared(room, 1, info, ranks, &own, &handle_);
    MPI_Info_free(&info);
    if (code != MPI_SUCCESS)
      throw error("no shared memory of " + std::to_string(bytes) + " bytes for each rank of this host",
                  "MPI_Win_allocate_shared that succeeds",
                  "make /dev/shm larger (containers: --shm-size), or set shared_memory of mpi_options to false");
    check_mpi(MPI_Win_set_errhandler(handle_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
    check_mpi(MPI_Win_lock_all(MPI_MODE_NOCHECK, handle_), "MPI_Win_lock_all");
    int size = 0;
    check_mpi(MPI_Comm_size(ranks, &size), "MPI_Comm_size");
    for (int r = 0; r < size; ++r) {
      MPI_Aint length = 0;
      int unit = 0;
      void* begin = nullptr;
      check_mpi(MPI_Win_shared_query(handle_, r, &length, &unit, &begin), "MPI_Win_shared_query");
      // Whole pages are mapped, so a block begins as far from a multiple of the alignment for all ranks.
      const auto excess = reinterpret_cast<std::uintptr_t>(begin) % host_memory::alignment;
      blocks_.push_back(static_cast<std::byte*>(begin) + (excess == 0 ? 0 : host_memory::alignment - excess));
    }
  }

  /// Collective. No rank uses the memory any more.
  void free() {
    check_mpi(MPI_Win_unlock_all(handle_), "MPI_Win_unlock_all");
    check_mpi(MPI_Win_free(&handle_), "MPI_Win_free");
  }

  std::size_t bytes() const { return bytes_; }
  std::byte* block(int rank) const { return blocks_[static_cast<std::size_t>(rank)]; }

  /// Whether a handle on this rank's block lives.
  bool in_use() const { return in_use_; }
  void lend() { in_use_ = true; }
  void take_back(void*, std::size_t) noexcept override { in_use_ = false; }

 private:
  MPI_Win handle_ = MPI_WIN_NULL;
  std::size_t bytes_;
  std::vector<std::byte*> blocks_;
  bool in_use_ = false;
};

}  // namespace tessera::detail
