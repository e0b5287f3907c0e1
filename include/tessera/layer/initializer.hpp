#pragma once

#include <tessera/core/random.hpp>
#include <tessera/core/shape.hpp>

#include <cmath>
#include <string_view>

namespace tessera {

/// Number of inputs and outputs that one weight element connects, from weight extents `[out, in, kernel...]`.
struct fans {
  index_t in = 1;
  index_t out = 1;
};
template <int Rank>
constexpr fans fans_of(shape<Rank> const& weight) {
  index_t receptive = 1;
  for (int d = 2; d < Rank; ++d) receptive *= weight[d];
  return {Rank > 1 ? weight[1] * receptive : weight.size(), Rank > 0 ? weight[0] * receptive : 1};
}

/// Which fan a Kaiming initialiser keeps the variance of.
enum class fan : std::uint8_t { in, out };

/// An initialiser gives each element its value from the generator, the element's global index (row-major, logical
/// order) and the fans of its weight; so every split starts from the values of the serial model.
template <class I>
concept initializer = requires(philox const& draw, index_t i, fans f) {
  { I::value(draw, i, f) } -> std::convertible_to<double>;
};

struct zeros {
  static double value(philox const&, index_t, fans) { return 0.0; }
};
struct ones {
  static double value(philox const&, index_t, fans) { return 1.0; }
};

/// Normal with mean 0 and deviation 1.
struct standard_normal {
  static double value(philox const& draw, index_t i, fans) { return draw.normal(static_cast<std::uint64_t>(i)); }
};

/// Normal with mean 0 and a deviation of choice, as in `normal_of<std::ratio<1, 50>>`.
template <class Deviation>
struct normal_of {
  static double value(philox const& draw, index_t i, fans) {
    return static_cast<double>(Deviation::num) / static_cast<double>(Deviation::den) *
           draw.normal(static_cast<std::uint64_t>(i));
  }
};

/// Uniform in +-sqrt(6 / (in + out)). X. Glorot and Y. Bengio, AISTATS 2010.
struct xavier_uniform {
  static double bound(fans f) { return std::sqrt(6.0 / static_cast<double>(f.in + f.out)); }
  static double value(philox const& draw, index_t i, fans f) {
    return bound(f) * (2.0 * draw.uniform(static_cast<std::uint64_t>(i)) - 1.0);
  }
};
/// Normal with variance 2 / (in + out). X. Glorot and Y. Bengio, AISTATS 2010.
struct xavier_normal {
  static double value(philox const& draw, index_t i, fans f) {
    return std::sqrt(2.0 / static_cast<double>(f.in + f.out)) * draw.normal(static_cast<std::uint64_t>(i));
  }
};
/// Normal with variance 2 / fan, for layers followed by relu. K. He, X. Zhang, S. Ren and J. Sun, ICCV 2015.
template <fan Keep = fan::in>
struct kaiming_normal {
  static double value(philox const& draw, index_t i, fans f) {
    const index_t n = Keep == fan::in ? f.in : f.out;
    return std::sqrt(2.0 / static_cast<double>(n)) * draw.normal(static_cast<std::uint64_t>(i));
  }
};
/// Uniform in +-sqrt(6 / fan), for layers followed by relu. K. He, X. Zhang, S. Ren and J. Sun, ICCV 2015.
template <fan Keep = fan::in>
struct kaiming_uniform {
  static double value(philox const& draw, index_t i, fans f) {
    const index_t n = Keep == fan::in ? f.in : f.out;
    return std::sqrt(6.0 / static_cast<double>(n)) * (2.0 * draw.uniform(static_cast<std::uint64_t>(i)) - 1.0);
  }
};

/// The generator stream of a parameter, from its name in the model (64-bit FNV-1a).
constexpr std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace tessera
