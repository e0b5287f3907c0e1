#include <doctest/doctest.h>
#include <tessera/backend/concept.hpp>
#include <tessera/backend/eigen.hpp>

namespace tessera::test {
namespace {

/// A backend that lacks a storage order.
struct orderless : eigen {
 private:
  using eigen::order;
};
/// A backend without one kernel.
struct unable_to_multiply : eigen {
  void matmul() = delete;
};

}  // namespace

TEST_CASE("the concept accepts a whole backend and nothing less") {
  CHECK(backend<eigen>);
  CHECK(backend_for<eigen, float>);
  CHECK_FALSE(backend<unable_to_multiply>);
  CHECK_FALSE(backend<orderless>);
  CHECK_FALSE(backend<int>);
}

}  // namespace tessera::test
