#pragma once

#include <tessera/backend/ascend.hpp>

#include <cstdint>
#include <string_view>

namespace job {

/// The chip that the double is told to be (`ASCEND_DOUBLE_CHIP`): tests are compiled once and run on both.
struct chip_here {
  struct cube_math {
    operator std::int8_t() const {
      return tessera::ascend_910::is(aclrtGetSocName()) ? tessera::ascend_910::cube_math_type
                                                        : tessera::ascend_910b::cube_math_type;
    }
  };
  static constexpr std::string_view name = "Ascend 910 or 910B";
  static constexpr cube_math cube_math_type{};
  static constexpr bool is(std::string_view soc) {
    return tessera::ascend_910::is(soc) || tessera::ascend_910b::is(soc);
  }
};

}  // namespace job
