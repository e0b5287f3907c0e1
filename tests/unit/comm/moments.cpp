#include <doctest/doctest.h>

#include <tessera/comm/moments.hpp>
#include <tessera/core/random.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace {

using tessera::merge;
using tessera::moments;

template <class T>
moments<T> two_pass(std::span<T const> values) {
  long double sum = 0;
  for (const T v : values) sum += v;
  const long double mean = values.empty() ? 0 : sum / static_cast<long double>(values.size());
  long double m2 = 0;
  for (const T v : values) m2 += (v - mean) * (v - mean);
  return {static_cast<T>(values.size()), static_cast<T>(mean), static_cast<T>(m2)};
}

template <class T>
bool same_bits(moments<T> const& a, moments<T> const& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

TEST_CASE_TEMPLATE("merged parts of values far from zero give the moments of the whole", T, float, double) {
  constexpr int count = 4000;
  std::vector<T> values;
  const tessera::philox random(1, 0);
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(1e4 + 1e-2 * random.normal(i)));
  const auto whole = two_pass(std::span<T const>(values));
  const std::span<T const> all(values);
  moments<T> merged;
  // Parts of many sizes, an empty one among them.
  std::size_t begin = 0;
  for (const std::size_t size : std::vector<std::size_t>{0, 1, 7, 500, 992, 2500}) {
    merged = merge(merged, two_pass(all.subspan(begin, size)));
    begin += size;
  }
  REQUIRE(begin == values.size());
  CHECK(merged.count == whole.count);
  // A float near 1e4 is known to 5e-4: the distance of the parts' means, and with it m2, to about a tenth of 1e-2.
  const bool single = sizeof(T) == sizeof(float);
  CHECK(std::abs(merged.mean - whole.mean) <= (single ? 2e-3 : 1e-11));
  CHECK(std::abs(merged.m2 - whole.m2) <= (single ? 0.02 : 1e-9) * whole.m2);
}

TEST_CASE_TEMPLATE("the order of the arguments does not change a bit", T, float, double) {
  const tessera::philox random(2, 0);
  int same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto some = [&](std::uint64_t which) {
      const auto count = std::floor(4 * random.uniform(8 * i + which));  // equal counts and 0 among them
      return moments<T>{static_cast<T>(count), static_cast<T>(random.normal(8 * i + which + 1)),
                        static_cast<T>(random.uniform(8 * i + which + 2))};
    };
    const auto a = some(0);
    const auto b = some(4);
    same += same_bits(merge(a, b), merge(b, a)) ? 1 : 0;
  }
  CHECK(same == 1000);
}

TEST_CASE_TEMPLATE("a set of count 0 changes nothing, whatever else it holds", T, float, double) {
  const moments<T> some{3, 5, 7};
  const moments<T> none{0, std::numeric_limits<T>::quiet_NaN(), 1};
  CHECK(same_bits(merge(some, none), some));
  CHECK(same_bits(merge(none, some), some));
  CHECK(same_bits(merge(moments<T>{}, moments<T>{}), moments<T>{}));
}

TEST_CASE("two single values") {
  const auto both = merge(moments<double>{1, 1, 0}, moments<double>{1, 4, 0});
  CHECK(both.count == 2);
  CHECK(both.mean == 2.5);
  CHECK(both.m2 == 4.5);
}

}  // namespace
