#include "softmax_case.hpp"

namespace {
const golden::built here("log_softmax");
}

TEST_CASE("log_softmax equals its reference cases") { golden::run("log_softmax", run_softmax<log_softmax_functions>); }
