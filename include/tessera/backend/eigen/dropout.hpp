#pragma once

#include <tessera/backend/settings.hpp>
#include <tessera/core/random.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tessera::detail::eigen_kernels {

/// y[i] = x[i] / keep with probability `keep`, else 0, for the elements from `first` on of a larger tensor.
///
/// Element e of it is kept where its word of `draw` is small: of each 128 neighbours, element 32 w + k takes word w of
/// counter 32 (e / 128) + k. That depends on e alone, and 32 counters at once are vector code.
template <class T>
void dropout(operand<T, 1> x, philox const& draw, index_t first, double keep, block<T, 1> y) {
  constexpr int lanes = 32;
  constexpr index_t group = 4 * lanes;
  // The largest word that is kept, so that a `keep` of 1 keeps all.
  const auto last = static_cast<std::uint32_t>(std::max(std::floor(keep * 0x1.0p32), 1.0) - 1);
  const auto factor = static_cast<T>(1 / keep);
  std::uint32_t words[group];
  for (index_t i = 0; i < x.size();) {
    const index_t at = (first + i) % group;
    const index_t count = std::min(group - at, x.size() - i);
    draw.words<lanes>(static_cast<std::uint64_t>((first + i) / group) * lanes, words);
    T const* from = x.data + i;
    if (count == group) {
      T kept[group];
      for (index_t j = 0; j < group; ++j) kept[j] = words[j] <= last ? from[j] * factor : T{0};
      std::copy_n(kept, group, y.data + i);
    } else {
      for (index_t j = 0; j < count; ++j) y.data[i + j] = words[at + j] <= last ? from[j] * factor : T{0};
    }
    i += count;
  }
}

}  // namespace tessera::detail::eigen_kernels
