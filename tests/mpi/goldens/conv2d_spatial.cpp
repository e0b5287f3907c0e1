#include "conv2d_case.hpp"

// Height and width cut, alone and with the batch, channels and groups.

TEST_CASE("conv2d of cut height and width equals its reference cases") {
  golden::run("conv2d", [](golden::teams& all, golden::test_case const& c) {
    switch (static_cast<tessera::index_t>(c.given.number("groups", 1))) {
      case 1: return golden::run_cuts<conv2d_case<1>, 'h', 'w', 'n'>(all, c);
      case 2: return golden::run_cuts<conv2d_case<2>, 'h', 'w'>(all, c);
      default: return true;  // conv2d.cpp runs them by batch and groups
    }
  });
}
