#pragma once

#include <tessera/backend/eigen.hpp>
#include <tessera/comm/mesh_groups.hpp>
#include <tessera/comm/mpi.hpp>
#include <tessera/comm/processors.hpp>
#include <tessera/comm/serial.hpp>
#include <tessera/core/context.hpp>
#include <tessera/train/network.hpp>
#include <tessera/train/pipeline.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>

namespace tessera {

/// A context made of any communicator: what a rank needs to be part of a mesh.
///
/// Constructed on all ranks of `world` together. Throws `error` where the world does not have the mesh's size. Kernels
/// of a rank run on `threads` threads where the backend can.
template <device_mesh Mesh, communicator Comm, class Backend = eigen>
class team {
 public:
  using mesh = Mesh;
  using communicator = Comm;
  using backend = Backend;
  using context_type = team;

  explicit team(Comm const& world, int threads = 1) : groups_(world) {
    if constexpr (requires { kernels_.use_threads(threads); }) kernels_.use_threads(threads);
  }
  team(team const&) = delete;
  team& operator=(team const&) = delete;

  auto const& coordinates() const { return groups_.coordinates(); }
  Comm& group(axis_set set) { return groups_.group(set); }
  Backend& kernels() { return kernels_; }
  /// Position of this rank among all.
  int rank() const { return mesh::group_rank(mesh::all, coordinates()); }

  /// A model on this team; its parameters start from the seed, equal to those of any other split.
  template <class Model, class T = float>
  network<Model, team, T> make(seed start = {}) {
    return network<Model, team, T>(*this, start);
  }

 private:
  mesh_groups<Mesh, Comm> groups_;
  Backend kernels_;
};

namespace detail {

/// Prints why the program ends and ends all ranks. A fault that all ranks see is printed by rank 0 alone: the others
/// give it time to end them.
[[noreturn]] inline void end_all_ranks() {
  int rank = 0;
  const bool running = mpi_initialized() && !mpi_finalized();
  if (running) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  try {
    if (const std::exception_ptr reason = std::current_exception()) std::rethrow_exception(reason);
    std::fprintf(stderr, "[rank %d] the program was terminated\n", rank);
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "[rank %d] %s\n", rank, failure.what());
  } catch (...) {
    std::fprintf(stderr, "[rank %d] an exception of unknown type\n", rank);
  }
  std::fflush(stderr);
  if (running) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace detail

/// Starts MPI and makes exceptions that nobody catches end all ranks, with their text printed once and a non-zero exit
/// code. A session has one; programs that need MPI before they know their mesh declare one first in `main`.
class program {
 public:
  program() { std::set_terminate(detail::end_all_ranks); }
  program(int& argc, char**& argv) : environment_(argc, argv) { std::set_terminate(detail::end_all_ranks); }

 private:
  mpi_environment environment_;
};

/// Settings of `session`, the same on all ranks.
struct session_options {
  /// Threads that the kernels of a rank run on. 0: as many as it has processors, those of its machine that it may run
  /// on, each shared evenly by the ranks that may.
  int threads = 0;
  mpi_options mpi{};
};

namespace detail {

inline int threads_of_rank(session_options const& options, int processors) {
  if (options.threads < 0)
    throw error("threads = " + std::to_string(options.threads), "a number of threads, or 0 for this rank's processors",
                "correct the session_options");
  return options.threads == 0 ? processors : options.threads;
}

}  // namespace detail

/// The program on its mesh under MPI: declared first in `main`, and a context for everything else.
///
///     int main(int argc, char** argv) {
///       tessera::session<world> session{argc, argv};
///
/// An exception that leaves `main` on any rank is printed and ends all ranks with a non-zero exit code.
template <device_mesh Mesh, class Backend = eigen>
class session : program, public team<Mesh, mpi_comm, Backend> {
 public:
  explicit session(session_options const& options = {})
      : team<Mesh, mpi_comm, Backend>(mpi_comm(MPI_COMM_WORLD, options.mpi), threads(options)) {}
  session(int& argc, char**& argv, session_options const& options = {})
      : program(argc, argv), team<Mesh, mpi_comm, Backend>(mpi_comm(MPI_COMM_WORLD, options.mpi), threads(options)) {}

 private:
  static int threads(session_options const& options) {
    return detail::threads_of_rank(options, detail::processors_of_rank(MPI_COMM_WORLD));
  }
};

}  // namespace tessera
