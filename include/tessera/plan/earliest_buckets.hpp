#pragma once

#include <tessera/core/shape.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera {

/// A gradient on its way to a sum over ranks, times in any unit: when it exists, and how long its bytes take.
struct timed_gradient {
  index_t ready = 0;
  index_t transfer = 0;
};

/// When the last of these buckets is reduced. `ends` are the numbers of gradients after each bucket; gradients are in
/// the order in which they appear. Buckets go one after the other, each when its last gradient exists, and take
/// `latency` and the time of their bytes.
constexpr index_t finish_of_buckets(std::vector<timed_gradient> const& gradients, index_t latency,
                                    std::vector<int> const& ends) {
  index_t now = 0;
  std::size_t at = 0;
  for (const int end : ends) {
    index_t transfer = latency;
    index_t ready = 0;
    for (; at < static_cast<std::size_t>(end); ++at) {
      transfer += gradients[at].transfer;
      ready = std::max(ready, gradients[at].ready);
    }
    now = std::max(now, ready) + transfer;
  }
  return now;
}

/// The buckets of consecutive gradients whose last is reduced earliest (`finish_of_buckets`), the fewest there are with
/// that. `ready` does not fall from a gradient to the next.
///
/// Exact, by dynamic programming: the earliest finish of the first j gradients is the least over the beginnings i of
/// their last bucket, and an earlier finish of the gradients before i is never worse. Going back from the end, the
/// largest last bucket that keeps the finish leaves the fewest buckets, because it takes its bytes out of the buckets
/// before. At most n^2 / 2 steps for n gradients.
constexpr std::vector<int> earliest_buckets(std::vector<timed_gradient> const& gradients, index_t latency) {
  const std::size_t n = gradients.size();
  std::vector<index_t> before(n + 1, 0);  // the transfers of the first i gradients
  for (std::size_t i = 0; i < n; ++i) before[i + 1] = before[i] + gradients[i].transfer;
  std::vector<index_t> earliest(n + 1, 0);
  for (std::size_t j = 1; j <= n; ++j) {
    const index_t ready = gradients[j - 1].ready;
    for (std::size_t i = j; i-- > 0;) {
      const index_t finish = std::max(earliest[i], ready) + latency + before[j] - before[i];
      if (i == j - 1 || finish < earliest[j]) earliest[j] = finish;
      // Beginnings before this one have more to send, and do not start earlier.
      if (earliest[i] <= ready) break;
    }
  }
  std::vector<int> ends;
  index_t deadline = earliest[n];
  for (std::size_t j = n; j > 0;) {
    ends.push_back(static_cast<int>(j));
    std::size_t begin = j - 1;
    index_t start = 0;
    for (std::size_t i = j; i-- > 0;) {
      const index_t latest = deadline - latency - (before[j] - before[i]);
      if (latest < gradients[j - 1].ready) break;
      if (earliest[i] > latest) continue;
      begin = i;
      start = latest;
    }
    deadline = start;
    j = begin;
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

}  // namespace tessera
