#include "bare.hpp"
#include "support/on_host.hpp"

#include <tessera/backend/with_fallback.hpp>

#define TESSERA_BACKEND "fallback: "
#define TESSERA_ELEMENTS float

namespace tessera::test {
namespace {

// Every kernel but those that all programs need is one of `eigen`, on copies.
using device = bare<storage_order::row_major>;
static_assert(backend<device> && !offers<device, float, kernel_group::matrices>);

using suite_kernels = on_host<with_fallback<device, eigen>>;

}  // namespace
}  // namespace tessera::test

#include "suite.hpp"
