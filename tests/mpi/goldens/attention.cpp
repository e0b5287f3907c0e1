#include "attention_case.hpp"

namespace {
const golden::built here("scaled_dot_product_attention");
}

TEST_CASE("attention to whole keys equals its reference cases") {
  golden::run("scaled_dot_product_attention", [](golden::teams& all, golden::test_case const& c) {
    return golden::run_cuts<attention_case<'t'>, 'b', 'h', 's'>(all, c);
  });
}
