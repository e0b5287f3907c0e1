#pragma once

// The MPI headers' C++ bindings are no longer part of MPI, and bring warnings and link dependencies.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <tessera/comm/concept.hpp>
#include <tessera/comm/fold.hpp>
#include <tessera/core/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

namespace tessera::detail {

/// Throws for the return code of the MPI function `name` unless it is success.
inline void check_mpi(int code, char const* name) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw error(std::string(name) + " failed with code " + std::to_string(code) + ": " +
                  std::string(text, static_cast<std::size_t>(length)),
              "success", "check that all ranks of the group make this call with matching counts and types");
}

inline bool mpi_initialized() {
  int yes = 0;
  check_mpi(MPI_Initialized(&yes), "MPI_Initialized");
  return yes != 0;
}

inline bool mpi_finalized() {
  int yes = 0;
  check_mpi(MPI_Finalized(&yes), "MPI_Finalized");
  return yes != 0;
}

/// Ends all ranks of the program.
[[noreturn]] inline void abort_mpi(int code) {
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);  // only where MPI_Abort failed
}

/// The same where an error cannot be thrown, in a destructor.
[[noreturn]] inline void abort_mpi(char const* text) {
  std::fputs(text, stderr);
  std::fputc('\n', stderr);
  abort_mpi(EXIT_FAILURE);
}

/// Makes failures in the group return their code, which `check_mpi` throws, instead of ending the program.
inline void return_errors(MPI_Comm group) {
  check_mpi(MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

template <message_element T>
MPI_Datatype mpi_type_of() {
  if constexpr (std::same_as<T, float>) return MPI_FLOAT;
  if constexpr (std::same_as<T, double>) return MPI_DOUBLE;
  if constexpr (std::same_as<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::same_as<T, std::int64_t>) return MPI_INT64_T;
  if constexpr (std::same_as<T, std::uint8_t>) return MPI_UINT8_T;
}

/// MPI libraries may refuse a null buffer even where the count is zero.
template <class T>
T* not_null(T* buffer) {
  static std::remove_const_t<T> nothing{};
  return buffer != nullptr ? buffer : &nothing;
}

/// The reductions of floating-point elements that MPI lacks, made once for a family of communicators.
template <std::floating_point T>
class mpi_operators_of {
 public:
  mpi_operators_of() { check_mpi(MPI_Op_create(&keep_maximum, 1, &maximum_), "MPI_Op_create"); }
  mpi_operators_of(mpi_operators_of const&) = delete;
  mpi_operators_of& operator=(mpi_operators_of const&) = delete;
  ~mpi_operators_of() {
    if (!mpi_finalized()) check_mpi(MPI_Op_free(&maximum_), "MPI_Op_free");
  }

  MPI_Op maximum() const { return maximum_; }

 private:
  // MPI_MAX keeps or drops a NaN depending on which rank holds it.
  static void keep_maximum(void* from, void* into, int* count, MPI_Datatype*) {
    fold_maximum(static_cast<T const*>(from), static_cast<T*>(into), *count);
  }

  MPI_Op maximum_ = MPI_OP_NULL;
};

class mpi_operators : public mpi_operators_of<float>, public mpi_operators_of<double> {
 public:
  template <message_element T>
  MPI_Op reduce(reduction op) const {
    if (op == reduction::sum) return MPI_SUM;
    if constexpr (std::floating_point<T>) return mpi_operators_of<T>::maximum();
    return MPI_MAX;
  }
};

}  // namespace tessera::detail
