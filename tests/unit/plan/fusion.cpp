#include <tessera/core/random.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/backward_times.hpp>
#include <tessera/plan/parallel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

// Buckets by the times of backward: the exact choice against all choices, and what it makes of models.

namespace {

using namespace tessera;
using tessera::index_t;

struct dp : axis<4> {};
struct tp : axis<2> {};
using world = mesh<dp, tp>;

/// A machine whose all-reduces over `dp` cost `Latency` nanoseconds and as many for 1000 bytes as `Transfer`.
template <index_t Latency, index_t Transfer>
struct cluster {
  template <class Axis>
  static constexpr link_cost along{static_cast<double>(Latency) * 1e-9, static_cast<double>(Transfer) * 1e-12};
  static constexpr double operations_per_second = 1e9;
  static constexpr double bytes_per_second = 1e9;
};

template <class Fusion>
using mlp = parallel<chain<linear<64, 64>, relu, linear<64, 64>, relu, linear<64, 64>, relu, linear<64, 8>>,
                     data_parallel<dp>, Fusion>;
template <class Fusion>
const std::vector<gradient_bucket> buckets = plan<mlp<Fusion>, world>::buckets(4);

/// The best of all ways to cut a list: the earliest finish, and the fewest buckets that have it.
struct best_cut {
  index_t finish;
  std::size_t buckets;
};
best_cut try_all(std::vector<timed_gradient> const& gradients, index_t latency) {
  const int n = static_cast<int>(gradients.size());
  best_cut best{0, 0};
  for (unsigned cuts = 0; cuts < 1u << (n - 1); ++cuts) {
    std::vector<int> ends;
    for (int i = 1; i <= n; ++i)
      if (i == n || (cuts >> (i - 1) & 1) != 0) ends.push_back(i);
    const index_t finish = finish_of_buckets(gradients, latency, ends);
    if (cuts == 0 || finish < best.finish || (finish == best.finish && ends.size() < best.buckets))
      best = {finish, ends.size()};
  }
  return best;
}

}  // namespace

TEST_CASE("the chosen buckets finish first of all partitions, and no fewer buckets finish as early") {
  const philox draw(5, 0);
  std::uint64_t next = 0;
  const auto below = [&](index_t most) {
    return static_cast<index_t>(draw.uniform(next++) * static_cast<double>(most));
  };
  std::size_t several = 0;
  for (int round = 0; round < 3000; ++round) {
    // Small numbers, so that times coincide; all proportions of computing to sending.
    std::vector<timed_gradient> gradients(static_cast<std::size_t>(1 + below(9)));
    const index_t gap = 1 + below(12);
    const index_t bytes = 1 + below(12);
    index_t now = 0;
    for (auto& g : gradients) g = {now += below(gap), below(bytes)};
    const index_t latency = below(10);
    const auto ends = earliest_buckets(gradients, latency);
    CAPTURE(round);
    REQUIRE(!ends.empty());
    REQUIRE(std::is_sorted(ends.begin(), ends.end()));
    REQUIRE(std::adjacent_find(ends.begin(), ends.end()) == ends.end());
    REQUIRE(ends.back() == static_cast<int>(gradients.size()));
    const best_cut best = try_all(gradients, latency);
    CHECK(finish_of_buckets(gradients, latency, ends) == best.finish);
    CHECK(ends.size() == best.buckets);
    several += ends.size() > 1;
  }
  CHECK(several > 500);
  CHECK(earliest_buckets({}, 1).empty());
}

TEST_CASE("the finish of buckets counts waiting for gradients and for the bucket before") {
  const std::vector<timed_gradient> gradients{{10, 3}, {11, 4}, {30, 5}};
  CHECK(finish_of_buckets(gradients, 2, {1, 2, 3}) == 37);  // 10 + 5, 15 + 6, 30 + 7
  CHECK(finish_of_buckets(gradients, 2, {2, 3}) == 37);     // 11 + 9, 30 + 7
  CHECK(finish_of_buckets(gradients, 2, {3}) == 44);        // 30 + 14
  CHECK(earliest_buckets(gradients, 2) == std::vector<int>{2, 3});
  static_assert(earliest_buckets({{10, 3}, {11, 4}, {30, 5}}, 2).size() == 2);
}

TEST_CASE("a machine of slow starts gets few buckets, one of fast starts more, and all gradients are in one") {
  auto const& few = buckets<fuse::automatic_on<cluster<1'000'000'000, 1>>>;
  auto const& many = buckets<fuse::automatic_on<cluster<0, 1000>>>;
  CHECK(few.size() == 1);
  CHECK(many.size() > 1);
  static_assert(plan<mlp<fuse::automatic>, world>::buckets(4).front().last < 8);
  for (auto const* found : {&few, &many, &buckets<fuse::automatic>}) {
    std::vector<int> members;
    for (auto const& bucket : *found) {
      CHECK(bucket.axes == world::set_of<dp>);
      CHECK(bucket.last == bucket.members.back());
      members.insert(members.end(), bucket.members.begin(), bucket.members.end());
    }
    // In the order in which backward makes them.
    CHECK(members == std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0});
  }
}

TEST_CASE("gradients exist later the earlier their layer comes, a bigger batch delays them all") {
  using bound = plan<mlp<fuse::all>, world>::bound;
  const auto few = gradient_times<bound, machine::shared_memory>(4, 32);
  const auto many = gradient_times<bound, machine::shared_memory>(4, 3200);
  REQUIRE(few.size() == 8);
  CHECK(std::is_sorted(few.rbegin(), few.rend()));
  CHECK(few[7] > 0);
  CHECK(few[6] == few[7]);  // of one layer
  CHECK(few[5] > few[6]);
  for (std::size_t i = 0; i < few.size(); ++i) CHECK(many[i] > 2 * few[i]);
}

TEST_CASE("tied parameters are in one bucket once, gradients that come out whole in none") {
  struct words;
  using tied_model = parallel<chain<embedding<20, 8, tied<words>>, linear<8, 8>, linear<8, 20, no_bias, tied<words>>>,
                              input<dynamic>, data_parallel<dp>, fuse::automatic>;
  const auto found = plan<tied_model, world>::buckets(4);
  std::vector<int> members;
  for (auto const& bucket : found) members.insert(members.end(), bucket.members.begin(), bucket.members.end());
  CHECK(members == std::vector<int>{2, 1, 0});
  using whole = parallel<chain<linear<8, 8, split_output<tp>>, linear<8, 4, split_input<tp>>>, fuse::automatic>;
  CHECK(plan<whole, world>::buckets(4).empty());
}

TEST_CASE("a block that is computed again has its gradients later, by its forward pass") {
  using input_flow = flow<shape<2>{{64, 64}}, placements<2>{}>;
  using block = chain<linear<64, 64>, relu, linear<64, 64>>;
  const auto plain = gradient_times<bind<block, world, input_flow>, cluster<0, 0>>(4, 1);
  const auto again = gradient_times<bind<recompute<block>, world, input_flow>, cluster<0, 0>>(4, 1);
  REQUIRE(plain.size() == 4);
  REQUIRE(again.size() == 4);
  const index_t later = again[3] - plain[3];
  CHECK(later > 0);
  for (std::size_t i = 0; i < 4; ++i) CHECK(again[i] - plain[i] == later);
  // Two products of 64 x 64 x 64, at one operation a nanosecond; times are rounded down.
  CHECK(later + 1 >= 2 * 2 * index_t{64 * 64 * 64} * 1000);
  CHECK(forward_work<bind<recompute<block>, world, input_flow>>(1).flops ==
        forward_work<bind<block, world, input_flow>>(1).flops);
}
