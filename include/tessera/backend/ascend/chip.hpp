#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

/// The first chip, Ascend 910 (also 910A, ProA, ProB, PremiumA). Its matrix unit takes FP16 only: products and
/// convolutions of float round their operands to 11 bits, and values above 65504 become infinite. Sums are float.
struct ascend_910 {
  static constexpr std::string_view name = "Ascend 910";
  /// `cubeMathType`: down to FP16, because aclnn refuses to keep float.
  static constexpr std::int8_t cube_math_type = 1;
  /// Whether this is the chip that ACL calls `soc`. "Ascend910B" alone is an old name of a first 910.
  static constexpr bool is(std::string_view soc) {
    constexpr std::string_view prefix = "Ascend910";
    if (!soc.starts_with(prefix)) return false;
    soc.remove_prefix(prefix.size());
    return soc.empty() || soc == "B" || soc.starts_with("A") || soc.starts_with("P");
  }
};

/// The second, Ascend 910B1 to 910B4 (A2), and 910_93 (A3), which has two of them. Products are of float.
struct ascend_910b {
  static constexpr std::string_view name = "Ascend 910B";
  static constexpr std::int8_t cube_math_type = 0;
  static constexpr bool is(std::string_view soc) {
    return soc.starts_with("Ascend910_93") || (soc.starts_with("Ascend910B") && soc.size() > 10);
  }
};

}  // namespace tessera
