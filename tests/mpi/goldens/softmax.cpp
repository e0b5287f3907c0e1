#include "softmax_case.hpp"

namespace {
const golden::built here("softmax");
}

TEST_CASE("softmax equals its reference cases") { golden::run("softmax", run_softmax<softmax_functions>); }
