#include "conv2d_case.hpp"

TEST_CASE("conv2d of cut height and channels equals its reference cases") {
  golden::run("conv2d", [](golden::teams& all, golden::test_case const& c) {
    if (c.given.number("groups", 1) != 1) return true;  // conv2d.cpp runs them by batch and groups
    return golden::run_cuts<conv2d_case<1>, 'h', 'o', 'i'>(all, c);
  });
}
