#pragma once

#include <tessera/core/error.hpp>
#include <tessera/core/partition.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tessera::detail {

/// Calls `use` with consecutive intervals of at most `limit` elements that cover 0 to `count` exactly once.
template <class Use>
constexpr void for_pieces(index_t count, index_t limit, Use use) {
  for (index_t begin = 0; begin < count; begin += limit) use(interval{begin, std::min(limit, count - begin)});
}

constexpr index_t total_of(std::span<index_t const> counts) {
  index_t total = 0;
  for (const index_t count : counts) total += count;
  return total;
}

/// Where each rank's part begins in a buffer packed in rank order.
inline std::vector<index_t> begins_of(std::span<index_t const> counts) {
  std::vector<index_t> begins(counts.size());
  index_t begin = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    begins[r] = begin;
    begin += counts[r];
  }
  return begins;
}

inline void check_count(index_t count, char const* operation) {
  if (count < 0)
    throw error(std::string(operation) + " of " + std::to_string(count) + " elements", "a count of 0 or more",
                "check the extents that the count comes from");
}

inline void check_counts(std::span<index_t const> counts, int ranks, char const* operation) {
  if (counts.size() != static_cast<std::size_t>(ranks))
    throw error(std::string(operation) + " with " + std::to_string(counts.size()) + " counts in a group of " +
                    std::to_string(ranks) + " ranks",
                "one count for each rank", "pass the counts of all ranks in rank order");
  for (const index_t count : counts) check_count(count, operation);
}

inline void check_own_part(index_t sent, index_t received) {
  if (sent != received)
    throw error("all_to_all where a rank sends itself " + std::to_string(sent) + " elements and receives " +
                    std::to_string(received),
                "equal counts", "make send_counts[r] of rank s equal to receive_counts[s] of rank r for all ranks");
}

inline void check_rank(int rank, int ranks) {
  if (rank < 0 || rank >= ranks)
    throw error("rank " + std::to_string(rank) + " in a group of " + std::to_string(ranks), "a rank of the group",
                "use ranks from 0 to " + std::to_string(ranks - 1));
}

inline void check_color(int color) {
  if (color < 0)
    throw error("split with color " + std::to_string(color), "a color of 0 or more", "number the groups from 0");
}

inline void check_tag(int tag) {
  if (tag < 0 || tag > 32766)
    throw error("message tag " + std::to_string(tag), "a tag from 0 to 32766", "number messages within this range");
}

}  // namespace tessera::detail
