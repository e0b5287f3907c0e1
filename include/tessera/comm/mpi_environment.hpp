#pragma once

#include <tessera/comm/mpi_call.hpp>

#include <exception>

namespace tessera {

/// Starts MPI (for calls from the main thread) and ends it in the destructor; leaves both to others where MPI is
/// running already. Communicators are destroyed before it.
///
/// When it is destroyed by an exception it ends all ranks of the program with exit code 1: other ranks may not have
/// thrown, and `MPI_Finalize` would wait for them for ever. Catch and report errors inside its scope.
class mpi_environment {
 public:
  mpi_environment() : mpi_environment(nullptr, nullptr) {}
  /// MPI may remove its own arguments.
  mpi_environment(int& argc, char**& argv) : mpi_environment(&argc, &argv) {}
  mpi_environment(mpi_environment const&) = delete;
  mpi_environment& operator=(mpi_environment const&) = delete;

  ~mpi_environment() {
    if (!owner_ || detail::mpi_finalized()) return;
    if (std::uncaught_exceptions() > exceptions_) detail::abort_mpi(1);
    if (MPI_Finalize() != MPI_SUCCESS) detail::abort_mpi("tessera: MPI_Finalize failed");
  }

 private:
  mpi_environment(int* argc, char*** argv) : owner_(!detail::mpi_initialized()) {
    if (detail::mpi_finalized())
      throw error("MPI has been finalized", "MPI that is running or was never started",
                  "keep one mpi_environment for the whole program");
    if (!owner_) return;
    int provided = MPI_THREAD_SINGLE;
    detail::check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    detail::return_errors(MPI_COMM_WORLD);
    if (provided < MPI_THREAD_FUNNELED)
      detail::abort_mpi("tessera: MPI without thread support; wanted MPI_THREAD_FUNNELED; use another MPI library");
  }

  bool owner_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tessera
