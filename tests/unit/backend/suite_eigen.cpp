#include <tessera/backend/eigen.hpp>

#define TESSERA_BACKEND "eigen: "
#define TESSERA_ELEMENTS float, double

namespace tessera::test {
namespace {
using suite_kernels = eigen;
}
}  // namespace tessera::test

#include "suite.hpp"
