#include <tessera/core/number_format.hpp>

#include <doctest/doctest.h>
#include <Eigen/Core>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

// Rounding to formats against Eigen's own types, whose numbers are enumerated: all 65536 patterns of bits.

namespace {

using namespace tessera;

/// The number of a pattern of bits.
template <class F>
float number(int pattern) {
  const auto bits = static_cast<std::uint16_t>(pattern);
  if constexpr (std::is_same_v<F, float16>)
    return static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(bits));
  else
    return static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(bits));
}

template <class T>
bool same_bits(T a, T b) {
  return a == b && std::signbit(a) == std::signbit(b);
}

template <class F, class T>
bool rounds_to(T x, float wanted) {
  return same_bits(rounded_to<F>(x), static_cast<T>(wanted)) && same_bits(rounded_to<F>(-x), static_cast<T>(-wanted));
}

/// The pattern of infinity: those below are finite and in order.
template <class F>
constexpr int infinity_pattern = std::is_same_v<F, float16> ? 0x7c00 : 0x7f80;

}  // namespace

TEST_CASE_TEMPLATE("every number of a format stays as it is, NaN too", F, bfloat16, float16) {
  int wrong = 0;
  for (int pattern = 0; pattern < 0x10000; ++pattern) {
    const float x = number<F>(pattern);
    if (std::isnan(x))
      wrong += !std::isnan(rounded_to<F>(x)) || !std::isnan(rounded_to<F>(static_cast<double>(x)));
    else
      wrong +=
          !same_bits(rounded_to<F>(x), x) || !same_bits(rounded_to<F>(static_cast<double>(x)), static_cast<double>(x));
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("what lies between two numbers goes to the nearer, half way to the even one", F, bfloat16, float16) {
  int wrong = 0;
  for (int pattern = 0; pattern < infinity_pattern<F> - 1; ++pattern) {
    const float below = number<F>(pattern);
    const float above = number<F>(pattern + 1);
    const double half = (static_cast<double>(below) + above) / 2;
    const float even = pattern % 2 == 0 ? below : above;
    wrong += !rounds_to<F>(half, even);
    wrong += !rounds_to<F>(std::nextafter(half, 0.0), below);
    wrong += !rounds_to<F>(std::nextafter(half, 1e300), above);
    const auto in_float = static_cast<float>(half);
    wrong += static_cast<double>(in_float) != half;
    wrong += !rounds_to<F>(in_float, even);
    wrong += !rounds_to<F>(std::nextafter(in_float, 0.0f), below);
    wrong += !rounds_to<F>(std::nextafter(in_float, std::numeric_limits<float>::max()), above);
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("beyond the largest number is infinity, from half a step on", F, bfloat16, float16) {
  const float largest = number<F>(infinity_pattern<F> - 1);
  const double step = static_cast<double>(largest) - static_cast<double>(number<F>(infinity_pattern<F> - 2));
  const double half = static_cast<double>(largest) + step / 2;
  const float infinite = std::numeric_limits<float>::infinity();
  CHECK(static_cast<double>(largest) == largest_of<F>);
  CHECK(rounds_to<F>(std::nextafter(half, 0.0), largest));
  CHECK(rounds_to<F>(half, infinite));
  CHECK(rounds_to<F>(std::nextafter(static_cast<float>(half), 0.0f), largest));
  CHECK(rounds_to<F>(static_cast<float>(half), infinite));
  CHECK(rounds_to<F>(1e300, infinite));
  CHECK(rounds_to<F>(std::numeric_limits<double>::infinity(), infinite));
}

TEST_CASE_TEMPLATE("limits are those of the format", F, bfloat16, float16) {
  CHECK(smallest_of<F> == static_cast<double>(number<F>(1)));
  CHECK(smallest_normal_of<F> == static_cast<double>(number<F>(1 << F::fraction_bits)));
  CHECK(rounds_to<F>(smallest_of<F> / 2, 0.0f));
  CHECK(rounds_to<F>(1e-300, 0.0f));
}

TEST_CASE("rounding is a constant expression") {
  static_assert(rounded_to<float16>(1.0f + 0x1p-11f) == 1.0f);
  static_assert(rounded_to<float16>(1.0 + 0x1.001p-11) == 1.0 + 0x1p-10);
  static_assert(rounded_to<bfloat16>(1.0f + 0x1.8p-8f) == 1.0f + 0x1p-7f);
  static_assert(rounded_to<float16>(-65520.0f) == -std::numeric_limits<float>::infinity());
  static_assert(number_format<bfloat16> && number_format<float16> && !number_format<float>);
}
