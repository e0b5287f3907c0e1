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
/// Backends without one kernel: one that every program needs, and one that only some do.
struct unable_to_add : eigen {
  void add() = delete;
};
struct unable_to_multiply : eigen {
  void matmul() = delete;
};

}  // namespace

TEST_CASE("the concept accepts a backend that has what every program needs") {
  CHECK(backend<eigen>);
  CHECK(backend_for<eigen, float>);
  CHECK_FALSE(backend<unable_to_add>);
  CHECK(backend<unable_to_multiply>);
  CHECK_FALSE(backend_for<unable_to_multiply, float>);
  CHECK_FALSE(backend<orderless>);
  CHECK_FALSE(backend<int>);
}

}  // namespace tessera::test
