#include "conv2d_case.hpp"

namespace {
const golden::built here("conv2d");
}

TEST_CASE("conv2d equals its reference cases") {
  golden::run("conv2d", [](golden::teams& all, golden::test_case const& c) {
    const auto groups = static_cast<tessera::index_t>(c.given.number("groups", 1));
    if (groups != 1) return run_conv2d_with_groups(all, c, groups);
    return golden::run_cuts<conv2d_case<1>, 'n', 'o', 'i'>(all, c);
  });
}
