#pragma once

#include <tessera/core/layout.hpp>

#include <utility>
#include <vector>

namespace tessera {

/// What a rank sends or receives in a ring, in positions of the sequence (a message has as many elements as its
/// positions have).
struct ring_traffic {
  index_t positions = 0;
  int messages = 0;
  constexpr void add(interval block) {
    positions += block.size;
    ++messages;
  }
  friend constexpr bool operator==(ring_traffic const&, ring_traffic const&) = default;
};

/// Which ranks of a group see each other's blocks when a sequence is cut along the group: pure arithmetic, the same in
/// plans, in tests and at run time.
///
/// Rank r has the queries `queries[r]` and the keys `keys[r]`. The block of keys of rank j visits the ranks that need
/// it in the order j + 1, j + 2, ... around the group; others are left out. With a causal mask a rank needs only blocks
/// that begin no later than its last query. On the way back each visitor adds its part to the gradient of the block,
/// and the last one sends the sum home.
class ring_plan {
 public:
  constexpr ring_plan(std::vector<interval> queries, std::vector<interval> keys, bool causal)
      : queries_(std::move(queries)), keys_(std::move(keys)), causal_(causal) {}

  constexpr int members() const { return static_cast<int>(keys_.size()); }
  constexpr interval queries(int rank) const { return queries_[static_cast<std::size_t>(rank)]; }
  constexpr interval keys(int rank) const { return keys_[static_cast<std::size_t>(rank)]; }

  /// Whether a query of `rank` sees a key of `owner`, another rank.
  constexpr bool needs(int rank, int owner) const {
    return rank != owner && queries(rank).size > 0 && keys(owner).size > 0 &&
           (!causal_ || keys(owner).begin < queries(rank).end());
  }
  /// Whom the block of `owner` visits after `rank`; the owner where that was the last one.
  constexpr int next(int rank, int owner) const {
    do rank = (rank + 1) % members();
    while (rank != owner && !needs(rank, owner));
    return rank;
  }
  /// Whom it comes from; the owner where `rank` is the first one.
  constexpr int previous(int rank, int owner) const {
    do rank = (rank + members() - 1) % members();
    while (rank != owner && !needs(rank, owner));
    return rank;
  }
  /// Whose block `rank` has after that of `owner`; itself where that was the last one. Its first is its own.
  constexpr int following(int rank, int owner) const {
    do owner = (owner + members() - 1) % members();
    while (owner != rank && !needs(rank, owner));
    return owner;
  }

  /// The blocks of others that this rank gets.
  constexpr ring_traffic blocks_received(int rank) const {
    ring_traffic sum;
    for (int j = following(rank, rank); j != rank; j = following(rank, j)) sum.add(keys(j));
    return sum;
  }
  /// The blocks, its own included, that it sends to the next one.
  constexpr ring_traffic blocks_sent(int rank) const {
    ring_traffic sum;
    int j = rank;
    do {
      if (next(rank, j) != j) sum.add(keys(j));
      j = following(rank, j);
    } while (j != rank);
    return sum;
  }
  /// Gradients of blocks that it adds its part to, and that of its own block.
  constexpr ring_traffic gradients_received(int rank) const {
    ring_traffic sum;
    int j = rank;
    do {
      if (previous(rank, j) != j) sum.add(keys(j));
      j = following(rank, j);
    } while (j != rank);
    return sum;
  }
  /// Gradients of all blocks that it got.
  constexpr ring_traffic gradients_sent(int rank) const { return blocks_received(rank); }

 private:
  std::vector<interval> queries_;
  std::vector<interval> keys_;
  bool causal_;
};

/// The part of dimension `dim` that each member of the group along the axes that cut it holds, in the order of the
/// group, seen from the device at `at`.
template <device_mesh Mesh, int Rank>
constexpr std::vector<interval> parts_along(int dim, placements<Mesh::axes> const& layout, shape<Rank> const& global,
                                            decltype(Mesh::sizes) const& at) {
  const axis_set group = layout.shard_axes(dim);
  std::vector<interval> parts;
  for (int r = 0; r < Mesh::group_size(group); ++r)
    parts.push_back(local_box<Mesh>(layout, global, Mesh::group_member(group, at, r))[dim]);
  return parts;
}

}  // namespace tessera
