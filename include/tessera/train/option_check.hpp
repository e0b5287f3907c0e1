#pragma once

#include <tessera/core/error.hpp>

#include <cmath>
#include <string>

namespace tessera::detail {

/// Throws unless the option is a finite number of 0 or more.
inline void require_not_negative(char const* option, double value) {
  if (!(value >= 0 && std::isfinite(value)))
    throw error(std::string(option) + " of " + std::to_string(value), "a finite number of 0 or more",
                "mend the option");
}

/// Throws unless the option is from 0 to below 1.
inline void require_share(char const* option, double value) {
  if (!(value >= 0 && value < 1))
    throw error(std::string(option) + " of " + std::to_string(value), "a number from 0 to below 1", "mend the option");
}

}  // namespace tessera::detail
