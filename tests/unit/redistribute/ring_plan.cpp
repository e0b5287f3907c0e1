#include <tessera/redistribute/ring_plan.hpp>

#include <doctest/doctest.h>

#include <algorithm>

namespace {

using namespace tessera;
using tessera::index_t;

constexpr std::vector<interval> blocks(index_t extent, int parts) {
  std::vector<interval> all;
  for (int p = 0; p < parts; ++p) all.push_back(cut({0, extent}, parts, p));
  return all;
}
constexpr ring_plan ring(index_t extent, int parts, bool causal) {
  return {blocks(extent, parts), blocks(extent, parts), causal};
}

// 10 positions over 4 ranks are 3, 3, 2, 2. Every block goes all the way round: rank 0 gets 7 positions.
static_assert(ring(10, 4, false).blocks_received(0) == ring_traffic{7, 3});
static_assert(ring(10, 4, false).blocks_sent(0) == ring_traffic{7, 3});  // all but that of rank 1
static_assert(ring(10, 4, false).gradients_received(0) == ring_traffic{8, 3});
static_assert(ring(10, 4, false).gradients_sent(0) == ring_traffic{7, 3});
// With a causal mask rank r gets the blocks before it and sends them on, with its own, unless it is the last one.
static_assert(ring(10, 4, true).blocks_received(0) == ring_traffic{0, 0});
static_assert(ring(10, 4, true).blocks_sent(0) == ring_traffic{3, 1});
static_assert(ring(10, 4, true).blocks_received(3) == ring_traffic{8, 3});
static_assert(ring(10, 4, true).blocks_sent(3) == ring_traffic{0, 0});
// Its gradient comes home from the last one; the first visitor has nothing to wait for.
static_assert(ring(10, 4, true).gradients_received(0) == ring_traffic{3, 1});
static_assert(ring(10, 4, true).gradients_received(3) == ring_traffic{6, 2});
static_assert(ring(10, 4, true).gradients_sent(3) == ring_traffic{8, 3});
static_assert(ring(10, 4, true).next(3, 0) == 0 && ring(10, 4, true).previous(0, 0) == 3);
// Ranks without positions neither send nor get anything.
static_assert(ring(2, 4, false).blocks_received(3) == ring_traffic{0, 0});
static_assert(ring(2, 4, false).blocks_sent(3) == ring_traffic{0, 0});
static_assert(ring(2, 4, false).blocks_received(0) == ring_traffic{1, 1});
// One rank is no ring.
static_assert(ring(5, 1, false).blocks_sent(0) == ring_traffic{0, 0});
static_assert(ring(5, 1, false).gradients_received(0) == ring_traffic{0, 0});

}  // namespace

TEST_CASE("rings of any blocks: what is sent is received, each block by exactly those that see some of it") {
  for (int parts = 1; parts <= 6; ++parts)
    for (index_t queries = 0; queries <= 8; ++queries)
      for (index_t keys = 0; keys <= 8; ++keys)
        for (const bool causal : {false, true}) {
          auto q = blocks(queries, parts);
          auto k = blocks(keys, parts);
          std::reverse(q.begin(), q.begin() + parts / 2);  // the order of a group need not be that of positions
          std::reverse(k.begin(), k.begin() + parts / 2);
          const ring_plan plan(q, k, causal);
          ring_traffic sums[4];
          const auto sum = [](ring_traffic& to, ring_traffic const& one) {
            to.positions += one.positions;
            to.messages += one.messages;
          };
          for (int rank = 0; rank < parts; ++rank) {
            sum(sums[0], plan.blocks_sent(rank));
            sum(sums[1], plan.blocks_received(rank));
            sum(sums[2], plan.gradients_sent(rank));
            sum(sums[3], plan.gradients_received(rank));
            ring_traffic seen;
            for (int owner = 0; owner < parts; ++owner) {
              bool sees = false;
              for (index_t i = q[static_cast<std::size_t>(rank)].begin; i < q[static_cast<std::size_t>(rank)].end();
                   ++i)
                for (index_t j = k[static_cast<std::size_t>(owner)].begin; j < k[static_cast<std::size_t>(owner)].end();
                     ++j)
                  sees = sees || !causal || j <= i;
              if (sees && owner != rank) seen.add(k[static_cast<std::size_t>(owner)]);
              CHECK(plan.needs(rank, owner) == (sees && owner != rank));
            }
            CHECK(plan.blocks_received(rank) == seen);
          }
          CHECK(sums[0] == sums[1]);
          CHECK(sums[2] == sums[3]);
        }
}

TEST_CASE("what a rank passes on arrives in the order in which it is expected") {
  // Messages of one sender and tag are taken in order, so both sides need the same order of blocks.
  for (int parts = 2; parts <= 6; ++parts)
    for (const bool causal : {false, true}) {
      const ring_plan plan(blocks(5, parts), blocks(9, parts), causal);
      for (int from = 0; from < parts; ++from)
        for (int to = 0; to < parts; ++to) {
          if (to == from) continue;
          std::vector<int> sent;
          std::vector<int> taken;
          int j = from;
          do {
            if (plan.next(from, j) == to && to != j) sent.push_back(j);
            j = plan.following(from, j);
          } while (j != from);
          for (j = plan.following(to, to); j != to; j = plan.following(to, j))
            if (plan.previous(to, j) == from) taken.push_back(j);
          CHECK(sent == taken);
        }
    }
}
