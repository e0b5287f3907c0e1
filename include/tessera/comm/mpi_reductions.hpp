#pragma once

#include <tessera/comm/mpi_call.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace tessera::detail {

/// All-reduces of a group that progress a piece at a time, numbered in the order in which they start, which is the same
/// on all ranks.
class mpi_reductions {
 public:
  mpi_reductions() = default;
  mpi_reductions(mpi_reductions const&) = delete;
  mpi_reductions& operator=(mpi_reductions const&) = delete;
  virtual ~mpi_reductions() = default;

  /// Whether the reduction of this number is complete, after a bounded piece of work on those under way.
  virtual bool test(std::uint64_t number) = 0;
  virtual void wait(std::uint64_t number) = 0;
};

/// A reduction of two ranks' elements, `from` into `into`, where their type is not known.
using fold_function = void (*)(std::byte const* from, std::byte* into, std::size_t bytes);

template <message_element T, void (*Fold)(T const*, T*, index_t)>
void fold_bytes(std::byte const* from, std::byte* into, std::size_t bytes) {
  Fold(reinterpret_cast<T const*>(from), reinterpret_cast<T*>(into), static_cast<index_t>(bytes / sizeof(T)));
}

template <message_element T>
fold_function fold_of(reduction op) {
  return op == reduction::maximum ? &fold_bytes<T, fold_maximum<T>> : &fold_bytes<T, fold_sum<T>>;
}

/// Waiting for other processes: spins, then lets others run, then sleeps, and lets MPI progress all the while.
class backoff {
 public:
  explicit backoff(MPI_Comm group) : group_(group) {}
  void reset() { turns_ = 0; }
  void operator()() {
    if (++turns_ % 32 == 0) {
      int found = 0;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, group_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
    }
    if (turns_ > 8192) return std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (turns_ > 16) std::this_thread::yield();
  }

 private:
  MPI_Comm group_;
  int turns_ = 0;
};

}  // namespace tessera::detail
