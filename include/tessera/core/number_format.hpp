#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tessera {

/// The upper half of a float: its range with 8 significant bits (D. Kalamkar et al., "A study of BFLOAT16 for deep
/// learning training", 2019).
struct bfloat16 {
  static constexpr int exponent_bits = 8;
  static constexpr int fraction_bits = 7;
};

/// binary16 of IEEE 754: 11 significant bits, normal from 2^-14, subnormal from 2^-24, at most 65504.
struct float16 {
  static constexpr int exponent_bits = 5;
  static constexpr int fraction_bits = 10;
};

/// A binary floating-point format of IEEE 754's kind (sign, exponent, fraction, with subnormal numbers, infinities and
/// NaN), no wider than float. It names values that float holds exactly; nothing is stored in it.
template <class F>
concept number_format = requires {
  requires F::exponent_bits >= 2 && F::exponent_bits <= 8;
  requires F::fraction_bits >= 1 && F::fraction_bits <= 22;
};

namespace detail {

constexpr double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
}

}  // namespace detail

/// The largest finite number of a format.
template <number_format F>
inline constexpr double largest_of =
    (2 - detail::power_of_two(-F::fraction_bits)) * detail::power_of_two((1 << (F::exponent_bits - 1)) - 1);
/// The smallest positive number with all significant bits.
template <number_format F>
inline constexpr double smallest_normal_of = detail::power_of_two(2 - (1 << (F::exponent_bits - 1)));
/// The smallest positive number.
template <number_format F>
inline constexpr double smallest_of = smallest_normal_of<F>* detail::power_of_two(-F::fraction_bits);

/// `x` rounded to the nearest number of the format, to the even one of two as near: infinite beyond the range,
/// gradually less exact below `smallest_normal_of`, NaN as it is, the sign kept. From float or double in one rounding.
template <number_format F, std::floating_point T>
constexpr T rounded_to(T x) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "tessera: only float and double are rounded");
  using bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>;
  constexpr int dropped = std::numeric_limits<T>::digits - 1 - F::fraction_bits;
  constexpr bits sign = bits{1} << (8 * sizeof(T) - 1);
  constexpr bits last = bits{1} << dropped;
  constexpr T infinite = std::numeric_limits<T>::infinity();
  // Numbers from here to twice this lie as far apart as the subnormal ones of the format.
  constexpr T coarse = static_cast<T>(smallest_of<F> * detail::power_of_two(std::numeric_limits<T>::digits - 1));

  // Without branches, so that loops over it become vector code.
  const bits all = std::bit_cast<bits>(x);
  const bits positive = all & static_cast<bits>(~sign);
  const T magnitude = std::bit_cast<T>(positive);
  const T normal = std::bit_cast<T>((positive + (last / 2 - 1) + ((positive >> dropped) & 1)) & ~(last - 1));
  const T subnormal = (magnitude + coarse) - coarse;
  const T nearest = magnitude < static_cast<T>(smallest_normal_of<F>) ? subnormal : normal;
  const T in_range = nearest > static_cast<T>(largest_of<F>) ? infinite : nearest;
  const T rounded = std::bit_cast<T>(std::bit_cast<bits>(in_range) | (all & sign));
  return positive > std::bit_cast<bits>(infinite) ? x : rounded;
}

}  // namespace tessera
