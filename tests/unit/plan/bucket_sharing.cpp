#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/plan/training_memory.hpp>
#include <tessera/train/adam.hpp>
#include <tessera/train/optimizer.hpp>

#include <doctest/doctest.h>

#include <vector>

// Which memory buckets that ranks share take turns in, what a step gathers, and what all of it takes.

namespace {

using namespace tessera;
using tessera::index_t;
using tessera::detail::layer_span;
using tessera::detail::places;

struct dp : axis<4> {};
struct tp : axis<2> {};
using world = tessera::mesh<dp, tp>;

/// Six layers of 4096 + 64 parameters, each a bucket of its own, 16640 bytes.
struct deep : chain<linear<64, 64>, linear<64, 64>, linear<64, 64>, linear<64, 64>, linear<64, 64>, linear<64, 64>> {};
template <class... Policies>
using layers = parallel<deep, data_parallel<dp>, fuse::at<2, 4, 6, 8, 10>, Policies...>;
template <int Level>
using level = layers<optimizer_parallel<dp, Level>>;

// One bucket is 260 pieces of memory, a quarter of it 65: nothing is rounded but the states of parameters.
constexpr index_t bucket = 4 * (64 * 64 + 64);
constexpr index_t all = 6 * bucket;

constexpr training_bytes whole = training_memory<layers<>, world>(adam{});
static_assert(whole.parameters == all && whole.gradients == all && whole.optimizer == 2 * all);
static_assert(whole.accumulated == all && whole.total() == 4 * all);

constexpr training_bytes one = training_memory<level<1>, world>(adam{});
static_assert(one.parameters == all && one.gradients == all && one.optimizer == 2 * all / 4);

// The whole gradients of two buckets beside the slices of all.
constexpr training_bytes two = training_memory<level<2>, world>(adam{});
static_assert(two.parameters == all && two.gradients == all / 4 + 2 * bucket && two.optimizer == 2 * all / 4);
static_assert(two.accumulated == all / 4);

constexpr training_bytes three = training_memory<level<3>, world>(adam{});
static_assert(three.parameters == all / 4 + 2 * bucket && three.gradients == two.gradients);
static_assert(three.optimizer == two.optimizer && three.accumulated == two.accumulated);

static_assert(training_memory<level<3>, world>(momentum{}).optimizer == all / 4);
static_assert(training_memory<level<3>, world>(sgd(0.1)).optimizer == 0);
static_assert(training_memory<level<3>, world, double>(momentum{}).optimizer == 2 * all / 4);

// One bucket of all cannot take turns: the whole of it beside its slice.
using one_bucket = parallel<deep, data_parallel<dp>, fuse::all, optimizer_parallel<dp, 3>>;
static_assert(training_memory<one_bucket, world>(adam{}).parameters == all / 4 + all);

// Backward finds the last two buckets where forward left them: of six, gathered forward, the other four come again.
static_assert(plan<level<1>, world>::sharing(4).gathered() == std::vector{5, 4, 3, 2, 1, 0});
static_assert(plan<level<3>, world>::sharing(4).gathered() == std::vector{5, 4, 3, 2, 1, 0, 2, 3, 4, 5});

// A block that is computed again: its buckets come once more, forward, then backward as far as they are gone.
using again = parallel<chain<recompute<chain<linear<64, 64>, linear<64, 64>, linear<64, 64>>>, linear<64, 64>>,
                       data_parallel<dp>, fuse::at<2, 4, 6>, optimizer_parallel<dp, 3>>;
static_assert(plan<again, world>::sharing(4).value_places == std::vector{0, 1, 0, 1});
static_assert(plan<again, world>::sharing(4).gathered() == std::vector{3, 2, 1, 0, 3, 2, 1, 3});

// A bucket with a weight that the last layer shares with the first one keeps its place to itself, its gradient does
// not.
struct words;
using tied_ends = parallel<chain<embedding<32, 64, tied<words>>, linear<64, 64>, linear<64, 64>, linear<64, 64>,
                                 linear<64, 32, no_bias, tied<words>>>,
                           input<dynamic>, data_parallel<dp>, fuse::at<3, 5, 7>, optimizer_parallel<dp, 3>>;
static_assert(plan<tied_ends, world>::sharing(4).value_places == std::vector{0, 1, 0, 2});
static_assert(plan<tied_ends, world>::sharing(4).gradient_places == std::vector{0, 1, 0, 1});

// Ranks along both axes own slices, or along one of them.
using both = parallel<deep, data_parallel<dp, tp>, optimizer_parallel<axis_list<dp, tp>, 1>>;
using first_only = parallel<deep, data_parallel<dp, tp>, optimizer_parallel<dp, 1>>;
static_assert(plan<both, world>::sharing(4).axes == std::vector{world::all});
static_assert(plan<first_only, world>::sharing(4).axes == std::vector{world::set_of<dp>});
static_assert(training_memory<both, world>(momentum{}).optimizer <
              training_memory<first_only, world>(momentum{}).optimizer);

}  // namespace

TEST_CASE("buckets take turns where a whole layer lies between their layers") {
  CHECK(places({}, true) == std::vector<int>{});
  CHECK(places({{5, 5}, {4, 4}, {3, 3}, {2, 2}}, true) == std::vector{0, 1, 0, 1});
  // Two buckets in each layer.
  CHECK(places({{3, 3}, {3, 3}, {2, 2}, {2, 2}, {1, 1}, {1, 1}}, true) == std::vector{0, 1, 2, 3, 0, 1});
  // A bucket over many layers, beside buckets over other axes.
  CHECK(places({{2, 9}, {8, 9}, {5, 6}, {2, 3}, {0, 0}}, true) == std::vector{0, 1, 1, 1, 0});
  CHECK(places({{5, 5}, {4, 4}, {3, 3}, {2, 2}}, false) == std::vector{0, 1, 2, 3});
  // Buckets that nobody shares have no place.
  CHECK(places({{}, {1, 1}, {}, {0, 0}}, true) == std::vector{-1, 0, -1, 1});
}

TEST_CASE("ranks along an axis of one device share nothing") {
  struct alone : axis<1> {};
  using small = tessera::mesh<alone, tp>;
  using model = parallel<deep, data_parallel<alone>, optimizer_parallel<alone, 3>>;
  CHECK(plan<model, small>::sharing(4).gathered().empty());
  CHECK(training_memory<model, small>(adam{}).total() == training_memory<parallel<deep>, small>(adam{}).total());
}
