#include "support/far.hpp"
#include "support/on_host.hpp"

#include <tessera/backend/with_fallback.hpp>

#define TESSERA_BACKEND "fallback: "
#define TESSERA_ELEMENTS float

namespace tessera::test {
namespace {

/// What every program needs and nothing else, on a device where images lie channels first: every other kernel is one of
/// `eigen`, on copies.
class bare : worlds::far {
 public:
  using memory = worlds::far_memory;
  static constexpr storage_order order = storage_order::row_major;
  using statistic = double;
  template <class T>
  static constexpr bool holds = std::is_same_v<T, float>;
  template <class Format>
  static constexpr bool computes = std::is_same_v<Format, float>;

  using far::relu_forward, far::relu_backward, far::add, far::sub, far::mul, far::scale, far::axpy, far::exp, far::log;
  using far::synchronize, far::upload, far::download, far::fill, far::copy, far::copy_strided, far::add_strided;
};
static_assert(backend<bare> && !offers<bare, float, kernel_group::matrices>);

using suite_kernels = on_host<with_fallback<bare, eigen>>;

}  // namespace
}  // namespace tessera::test

#include "suite.hpp"
