#include <tessera/backend/deterministic.hpp>

#define TESSERA_BACKEND "deterministic: "
#define TESSERA_ELEMENTS float

namespace tessera::test {
namespace {
using suite_kernels = deterministic<>;
}
}  // namespace tessera::test

#include "suite.hpp"
