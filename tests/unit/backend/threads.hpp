#pragma once

#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tessera::test {

/// What a kernel wrote, as bytes and as numbers.
struct written {
  std::vector<double> numbers;
  std::vector<unsigned char> bytes;

  template <class T, int Rank>
  void add(tensor<T, Rank> const& t) {
    for (index_t i = 0; i < t.size(); ++i) numbers.push_back(static_cast<double>(t.data()[i]));
    const auto size = static_cast<std::size_t>(t.size()) * sizeof(T);
    bytes.resize(bytes.size() + size);
    if (size > 0) std::memcpy(bytes.data() + bytes.size() - size, t.data(), size);
  }
};

/// Runs `kernel(backend, out)`, with parts of a few elements, twice with each number of threads. Outputs are the same
/// from run to run; with another number of threads to the last bit, or within `tolerance` of the largest number where
/// that is above 0.
template <class Kernel>
void compare(Kernel kernel, double tolerance = 0) {
  const auto run = [&](int threads) {
    eigen k(threads, 64);
    written out;
    kernel(k, out);
    return out;
  };
  const written wanted = run(1);
  double largest = 0;
  for (const double v : wanted.numbers) largest = std::max(largest, std::abs(v));
  for (const int threads : {2, 3}) {
    CAPTURE(threads);
    const written found = run(threads);
    CHECK(run(threads).bytes == found.bytes);
    if (tolerance == 0) {
      CHECK(found.bytes == wanted.bytes);
      continue;
    }
    REQUIRE(found.numbers.size() == wanted.numbers.size());
    double worst = 0;
    for (std::size_t i = 0; i < wanted.numbers.size(); ++i)
      worst = std::max(worst, std::abs(found.numbers[i] - wanted.numbers[i]));
    CHECK(worst <= tolerance * largest);
  }
}

}  // namespace tessera::test
