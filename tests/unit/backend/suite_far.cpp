#include "support/far.hpp"
#include "support/on_host.hpp"

#define TESSERA_BACKEND "far: "
#define TESSERA_ELEMENTS float

namespace tessera::test {
namespace {
using suite_kernels = on_host<worlds::far>;
}
}  // namespace tessera::test

#include "suite.hpp"
