#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tessera {

/// Counter-based random numbers: a pure function of seed, stream and counter, so that every rank of any split
/// draws for a global element index exactly the value of the serial run.
///
/// Philox4x32-10 of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3",
/// SC 2011.
class philox {
 public:
  constexpr philox(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  /// Four independent 32-bit words for a counter.
  constexpr std::array<std::uint32_t, 4> operator()(std::uint64_t counter) const {
    std::array<std::uint32_t, 4> c{low(counter), high(counter), low(stream_), high(stream_)};
    std::uint32_t k0 = low(seed_);
    std::uint32_t k1 = high(seed_);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
      c = {high(p1) ^ c[1] ^ k0, low(p1), high(p0) ^ c[3] ^ k1, low(p0)};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

  /// Words of `Count` counters from `first` on: word w of counter `first + k` at `out[w * Count + k]`. Counters go side
  /// by side, so that compilers make vector code of it.
  template <int Count>
  [[gnu::always_inline]] void words(std::uint64_t first, std::uint32_t (&out)[4 * Count]) const {
    std::uint32_t c[4][Count];
    for (int k = 0; k < Count; ++k) {
      c[0][k] = low(first + static_cast<std::uint64_t>(k));
      c[1][k] = high(first + static_cast<std::uint64_t>(k));
      c[2][k] = low(stream_);
      c[3][k] = high(stream_);
    }
    std::uint32_t k0 = low(seed_);
    std::uint32_t k1 = high(seed_);
    for (int round = 0; round < 10; ++round) {
      for (int k = 0; k < Count; ++k) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0][k];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2][k];
        c[0][k] = high(p1) ^ c[1][k] ^ k0;
        c[1][k] = low(p1);
        c[2][k] = high(p0) ^ c[3][k] ^ k1;
        c[3][k] = low(p0);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    for (int w = 0; w < 4; ++w)
      for (int k = 0; k < Count; ++k) out[w * Count + k] = c[w][k];
  }

  /// Uniform in [0, 1), 53 random bits.
  constexpr double uniform(std::uint64_t counter) const {
    const auto w = (*this)(counter);
    return unit(w[0], w[1]);
  }

  /// Standard normal (G. Box and M. Muller, 1958).
  double normal(std::uint64_t counter) const {
    const auto w = (*this)(counter);
    const double u = 1.0 - unit(w[0], w[1]);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * unit(w[2], w[3]));
  }

 private:
  static constexpr std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
  static constexpr std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }
  static constexpr double unit(std::uint32_t a, std::uint32_t b) {
    return static_cast<double>((std::uint64_t{a} << 32 | b) >> 11) * 0x1.0p-53;
  }

  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace tessera
