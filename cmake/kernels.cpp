// The Eigen kernels, compiled once for programs of many sources: the CMake target tessera::kernels.

#include <tessera/backend/eigen/precompiled.hpp>

namespace tessera::detail::eigen_kernels {
TESSERA_EIGEN_KERNELS(, float)
TESSERA_EIGEN_KERNELS(, double)
}  // namespace tessera::detail::eigen_kernels
