#include <tessera/backend/onednn.hpp>

#define TESSERA_BACKEND "onednn: "
#define TESSERA_ELEMENTS float, double

namespace tessera::test {
namespace {
using suite_kernels = onednn;
}
}  // namespace tessera::test

#include "suite.hpp"
