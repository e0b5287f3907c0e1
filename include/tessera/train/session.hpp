#pragma once

#include <tessera/backend/capability.hpp>
#include <tessera/backend/eigen.hpp>
#include <tessera/comm/concept.hpp>
#include <tessera/comm/mesh_groups.hpp>
#include <tessera/comm/mpi.hpp>
#include <tessera/comm/ordered.hpp>
#include <tessera/comm/plan_hash.hpp>
#include <tessera/comm/processors.hpp>
#include <tessera/comm/serial.hpp>
#include <tessera/core/context.hpp>
#include <tessera/plan/collectives.hpp>
#include <tessera/train/network.hpp>
#include <tessera/train/pipeline.hpp>

#include <chrono>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

namespace tessera {

/// A context made of any communicator: what a rank needs to be part of a mesh.
///
/// Constructed on all ranks of `world` together. Throws `error` where the world does not have the mesh's size. Kernels
/// of a rank run on `threads` threads where the backend can. A program that calls a kernel which the backend lacks does
/// not compile and says which.
template <device_mesh Mesh, communicator Comm, class Backend = eigen>
class team {
  static_assert(tessera::backend<Backend>,
                "tessera: the last type of this session or team is no backend: name one, as eigen; even one that lacks "
                "operators has memory and the kernels that every program needs (docs/how_to/add_a_backend.md)");

 public:
  using mesh = Mesh;
  using communicator = Comm;
  using backend = checked_backend<Backend>;
  using context_type = team;

  explicit team(Comm const& world, int threads = 1) : groups_(world) { use_threads(threads); }
  /// The same with `make_world(kernels)`: a communicator that works with the backend of this team.
  template <std::invocable<backend&> MakeWorld>
  explicit team(MakeWorld const& make_world, int threads = 1) : groups_(make_world(kernels_)) {
    use_threads(threads);
  }
  team(team const&) = delete;
  team& operator=(team const&) = delete;

  auto const& coordinates() const { return groups_.coordinates(); }
  Comm& group(axis_set set) { return groups_.group(set); }
  backend& kernels() { return kernels_; }
  /// Position of this rank among all.
  int rank() const { return mesh::group_rank(mesh::all, coordinates()); }

  /// A model on this team; its parameters start from the seed, equal to those of any other split.
  template <class Model, class T = float>
  requires std::floating_point<T> network<Model, team, T> make(seed start = {}) {
    return network<Model, team, T>(*this, start);
  }
  /// Parameters of another kind do not compile.
  template <class Model, class T>
  requires(!std::floating_point<T>) void make(seed = {}) {
    static_assert(
        computes_in<Backend, T>,
        "tessera: this backend does not compute in the T of make<Model, T>; leave T out, so that parameters are "
        "float, and compute in T on a session<Mesh, rounded<Backend, T>>");
    static_assert(
        !computes_in<Backend, T>,
        "tessera: make<Model, T> keeps parameters in float or double; leave T out: this backend computes in T "
        "whatever they are");
  }

 private:
  void use_threads(int threads) {
    if constexpr (requires { kernels_.use_threads(threads); }) kernels_.use_threads(threads);
  }

  backend kernels_;
  mesh_groups<Mesh, Comm> groups_;
};

namespace detail {

/// Prints why the program ends. A fault that all ranks see is printed by rank 0 alone: the others give it time to end
/// them.
inline void print_reason(int rank) {
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
}

/// Prints why the program ends and ends all ranks.
[[noreturn]] inline void end_all_ranks() {
  int rank = 0;
  const bool running = mpi_initialized() && !mpi_finalized();
  if (running) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  print_reason(rank);
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

/// The communicator of a session with this backend: its type, and how the one of all ranks is made when the backend is
/// there and MPI runs. MPI for backends on host memory, with sums in order for deterministic kernels; backends on
/// devices whose messages go another way specialise it, and may name another `program` than the one that starts MPI,
/// with `static int processors()` beside it: those of this rank.
template <class Backend>
struct communicator_for {
  static_assert(Backend::memory::on_host,
                "tessera: this session's backend has memory that MPI cannot send from: include the header that has its "
                "communicator (a specialisation of communicator_for), or make a team of the two yourself");
  using type = std::conditional_t<deterministic_backend<Backend>, ordered<mpi_comm>, mpi_comm>;
  static type world(Backend&, session_options const& options) { return type(mpi_comm(MPI_COMM_WORLD, options.mpi)); }
};

namespace detail {

template <class Backend>
struct program_for {
  using type = program;
};
template <class Backend>
requires requires { typename communicator_for<Backend>::program; }
struct program_for<Backend> {
  using type = typename communicator_for<Backend>::program;
};

}  // namespace detail

/// The program on its mesh under MPI: declared first in `main`, and a context for everything else.
///
///     int main(int argc, char** argv) {
///       tessera::session<world> session{argc, argv};
///
/// An exception that leaves `main` on any rank is printed and ends all ranks with a non-zero exit code.
template <device_mesh Mesh, class Backend = eigen>
class session : detail::program_for<Backend>::type,
                public team<Mesh, typename communicator_for<Backend>::type, Backend> {
  using team_type = team<Mesh, typename communicator_for<Backend>::type, Backend>;
  using program_type = typename detail::program_for<Backend>::type;

 public:
  explicit session(session_options const& options = {}) : team_type(world(options), threads(options)) {}
  session(int& argc, char**& argv, session_options const& options = {})
      : program_type(argc, argv), team_type(world(options), threads(options)) {}

  /// A model on this session; its parameters start from the seed, equal to those of any other split.
  ///
  /// Throws on all ranks where they did not ask for the same: the collectives that follow from the model's type and the
  /// seed are compared by one all-reduce.
  template <class Model, class T = float>
  network<Model, team_type, T> make(seed start = {}) {
    if constexpr (Mesh::devices > 1) {
      static constexpr std::uint64_t plan = hash_of(collectives<Model, Mesh, T>);
      check_equal_everywhere(detail::host_group(*this, Mesh::all), number_hash{}.add(plan).add(start.value).value(),
                             "the plan or the seed of a model");
    }
    return team_type::template make<Model, T>(start);
  }

 private:
  static auto world(session_options const& options) {
    return [&options](Backend& kernels) { return communicator_for<Backend>::world(kernels, options); };
  }
  static int threads(session_options const& options) {
    if constexpr (requires { communicator_for<Backend>::processors(); })
      return detail::threads_of_rank(options, communicator_for<Backend>::processors());
    else
      return detail::threads_of_rank(options, detail::processors_of_rank(MPI_COMM_WORLD));
  }
};

}  // namespace tessera
