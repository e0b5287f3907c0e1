#pragma once

#include <tessera/comm/mpi_call.hpp>
#include <tessera/core/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::detail {

/// A block of memory for each rank of a host, all within reach of each of them: an MPI-3 shared-memory window.
///
/// It is the source of handles on this rank's block. Freeing is collective and thus apart from the last handle's end.
class mpi_window final : public memory_handle::source {
 public:
  /// `bytes` for each of `ranks`, which share memory; contents arbitrary. Collective.
  mpi_window(MPI_Comm ranks, std::size_t bytes) : bytes_(bytes) {
    MPI_Info info = MPI_INFO_NULL;
    check_mpi(MPI_Info_create(&info), "MPI_Info_create");
    // Pages of its own for each rank, near the processor that writes them first.
    check_mpi(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "MPI_Info_set");
    void* own = nullptr;
    const auto room = static_cast<MPI_Aint>(bytes + host_memory::alignment);
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
