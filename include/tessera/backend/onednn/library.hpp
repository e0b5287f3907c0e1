#pragma once

#include <tessera/backend/parallel.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <string_view>

#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP && !defined(_OPENMP)
#error "tessera: this oneDNN computes on threads of OpenMP; link the target tessera::onednn, or compile with -fopenmp"
#elif DNNL_CPU_RUNTIME != DNNL_RUNTIME_OMP && DNNL_CPU_RUNTIME != DNNL_RUNTIME_SEQ
#error "tessera: this oneDNN computes on threads that are not OpenMP's; install one that is built for OpenMP"
#endif

namespace tessera::detail::onednn_kernels {

// Versions 2.6 and later and 3 of the library.

/// While it lives, the library makes and runs primitives on `threads` threads, as OpenMP has it for the calling one.
class [[nodiscard]] on_threads {
 public:
#ifdef _OPENMP
  explicit on_threads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~on_threads() { omp_set_num_threads(before_); }
#else
  explicit on_threads(int) {}
#endif
  on_threads(on_threads const&) = delete;
  on_threads& operator=(on_threads const&) = delete;

 private:
  int before_ = 1;
};

/// The description of a primitive, empty where the library has none for these arguments. Version 3 makes it in one
/// step; before, an operation was described first.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(dnnl::engine const& on, Arguments const&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(on, arguments..., dnnl::primitive_attr(), true);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), on, true);
#endif
}
/// The same of a gradient, which wants the description of what it is the gradient of.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_gradient(dnnl::engine const& on, Forward const& forward,
                                                     Arguments const&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(on, arguments..., forward, dnnl::primitive_attr(), true);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), on, forward, true);
#endif
}

/// Whether the library has more for this than the loops that define what it computes.
template <class Description>
bool worthwhile(Description const& description) {
  return description && !std::string_view(description.impl_info_str()).starts_with("ref");
}

}  // namespace tessera::detail::onednn_kernels
