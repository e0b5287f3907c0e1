#pragma once

#include <cstdint>

namespace tessera {

/// How the values of several devices become one, element by element.
///
/// The maximum of floating-point values is NaN when any of them is.
enum class reduction : std::uint8_t { sum, maximum };

/// The name, for errors and logs.
constexpr char const* to_string(reduction op) { return op == reduction::sum ? "sum" : "maximum"; }

}  // namespace tessera
