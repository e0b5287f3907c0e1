#pragma once

#include <tessera/comm/mpi_reductions.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tessera {

/// The pieces of one message or collective of `mpi_comm` that are under way. See `communicator_request`.
///
/// `test` and `wait` throw where a message has fewer elements than its receive asks for (MPI itself refuses one that
/// has more).
///
/// When it is destroyed by an exception it withdraws its receives and gives the other ranks ten seconds to complete
/// the rest, then ends all ranks of the program: it can neither leave MPI a buffer that is about to be freed, nor wait
/// for ranks that will never come.
class [[nodiscard]] mpi_request {
 public:
  mpi_request() = default;
  mpi_request(mpi_request&& other) noexcept
      : pieces_(std::exchange(other.pieces_, {})),
        arguments_(std::exchange(other.arguments_, {})),
        reductions_(std::move(other.reductions_)),
        number_(other.number_),
        exceptions_(other.exceptions_) {}
  mpi_request& operator=(mpi_request&& other) noexcept {
    finish();
    pieces_ = std::exchange(other.pieces_, {});
    arguments_ = std::exchange(other.arguments_, {});
    reductions_ = std::move(other.reductions_);
    number_ = other.number_;
    exceptions_ = other.exceptions_;
    return *this;
  }
  ~mpi_request() { finish(); }

  bool test() {
    while (!pieces_.empty()) {
      int complete = 0;
      MPI_Status status;
      detail::check_mpi(MPI_Test(&pieces_.back().handle, &complete, &status), "MPI_Test");
      if (complete == 0) return false;
      pop(status);
    }
    if (reductions_ != nullptr && !reductions_->test(number_)) return false;
    reductions_.reset();
    return true;
  }

  void wait() {
    while (!pieces_.empty()) {
      MPI_Status status;
      detail::check_mpi(MPI_Wait(&pieces_.back().handle, &status), "MPI_Wait");
      pop(status);
    }
    if (reductions_ == nullptr) return;
    reductions_->wait(number_);
    reductions_.reset();
  }

 private:
  friend class mpi_comm;

  struct piece {
    MPI_Request handle = MPI_REQUEST_NULL;
    int wanted = -1;  ///< elements of a receive
    MPI_Datatype type = MPI_DATATYPE_NULL;
  };

  /// Counts that MPI reads until the operation is complete, in memory that lives as long.
  int const* keep(std::vector<int> counts) {
    arguments_.push_back(std::move(counts));
    return arguments_.back().data();
  }
  /// Runs `start`, which starts one MPI operation, with the place for its handle.
  template <class Start>
  void add(Start start) {
    pieces_.emplace_back();
    start(&pieces_.back().handle);
  }
  /// The same for a receive of so many elements.
  template <class Start>
  void add_receive(int wanted, MPI_Datatype type, Start start) {
    add(start);
    pieces_.back().wanted = wanted;
    pieces_.back().type = type;
  }

  /// Takes out the last piece, which is complete.
  void pop(MPI_Status const& status) {
    const piece last = pieces_.back();
    pieces_.pop_back();
    if (last.wanted < 0) return;
    int found = 0;
    detail::check_mpi(MPI_Get_count(&status, last.type, &found), "MPI_Get_count");
    if (found != last.wanted)
      throw error("a message of " + (found == MPI_UNDEFINED ? "no whole number of" : std::to_string(found)) +
                      " elements from rank " + std::to_string(status.MPI_SOURCE) + " of the group",
                  std::to_string(last.wanted) + " as the receive says",
                  "check that both ranks work out the same counts and element types for the message");
  }

  void finish() noexcept {
    if (pieces_.empty() && reductions_ == nullptr) return;
    try {
      if (std::uncaught_exceptions() <= exceptions_) return wait();
      for (piece& p : pieces_)
        if (std::exchange(p.wanted, -1) >= 0 && p.handle != MPI_REQUEST_NULL)
          detail::check_mpi(MPI_Cancel(&p.handle), "MPI_Cancel");
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!test()) {
        if (std::chrono::steady_clock::now() > deadline)
          detail::abort_mpi("tessera: an error ended a rank while other ranks did not complete its messages");
        std::this_thread::yield();
      }
    } catch (std::exception const& failure) {
      detail::abort_mpi(failure.what());
    }
  }

  std::vector<piece> pieces_;
  std::vector<std::vector<int>> arguments_;
  std::shared_ptr<detail::mpi_reductions> reductions_;  // where the reduction `number_` is under way
  std::uint64_t number_ = 0;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera
