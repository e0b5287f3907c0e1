#include "attention_case.hpp"

TEST_CASE("attention in a ring equals its reference cases") {
  golden::run("scaled_dot_product_attention", [](golden::teams& all, golden::test_case const& c) {
    return golden::run_cuts<attention_case<'s'>, 's', 'b', 'h'>(all, c);
  });
}
