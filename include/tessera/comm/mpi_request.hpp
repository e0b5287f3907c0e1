#pragma once

#include <tessera/comm/mpi_call.hpp>

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

namespace tessera {

/// The pieces of one message or collective of `mpi_comm` that are under way. See `communicator_request`.
///
/// When it is destroyed by an exception it withdraws its receives and gives the other ranks ten seconds to complete
/// the rest, then ends all ranks of the program: it can neither leave MPI a buffer that is about to be freed, nor wait
/// for ranks that will never come.
class [[nodiscard]] mpi_request {
 public:
  mpi_request() = default;
  mpi_request(mpi_request&& other) noexcept
      : pieces_(std::exchange(other.pieces_, {})), exceptions_(other.exceptions_) {}
  mpi_request& operator=(mpi_request&& other) noexcept {
    finish();
    pieces_ = std::exchange(other.pieces_, {});
    exceptions_ = other.exceptions_;
    return *this;
  }
  ~mpi_request() { finish(); }

  bool test() {
    while (!pieces_.empty()) {
      int complete = 0;
      detail::check_mpi(MPI_Test(&pieces_.back().handle, &complete, MPI_STATUS_IGNORE), "MPI_Test");
      if (complete == 0) return false;
      pieces_.pop_back();
    }
    return true;
  }

  void wait() {
    for (; !pieces_.empty(); pieces_.pop_back())
      detail::check_mpi(MPI_Wait(&pieces_.back().handle, MPI_STATUS_IGNORE), "MPI_Wait");
  }

 private:
  friend class mpi_comm;

  struct piece {
    MPI_Request handle;
    bool receive;
  };

  /// Runs `start`, which starts one MPI operation, with the place for its handle.
  template <class Start>
  void add(bool receive, Start start) {
    pieces_.push_back({MPI_REQUEST_NULL, receive});
    start(&pieces_.back().handle);
  }

  void finish() noexcept {
    if (pieces_.empty()) return;
    try {
      if (std::uncaught_exceptions() <= exceptions_) return wait();
      for (piece& p : pieces_)
        if (p.receive && p.handle != MPI_REQUEST_NULL) detail::check_mpi(MPI_Cancel(&p.handle), "MPI_Cancel");
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!test())
        if (std::chrono::steady_clock::now() > deadline)
          detail::abort_mpi("tessera: an error ended a rank while other ranks did not complete its messages");
    } catch (std::exception const& failure) {
      detail::abort_mpi(failure.what());
    }
  }

  std::vector<piece> pieces_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera
