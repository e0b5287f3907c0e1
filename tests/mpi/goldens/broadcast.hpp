#pragma once

#include "support/golden_worlds.hpp"

namespace golden {

/// Runs a case of `add`, `sub` or `mul` whose operands have different shapes; false where no test has its pattern.
bool run_broadcast(teams& all, test_case const& c);

}  // namespace golden
