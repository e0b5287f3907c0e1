#include <tessera/core/random.hpp>
#include <tessera/layer/activation.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/pipeline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

// Where the stages of a pipeline begin, and what is known of each.

namespace {

using namespace tessera;
using tessera::index_t;

struct pp : axis<2> {};
struct longer : axis<4> {};
struct dp : axis<2> {};
struct tp : axis<2> {};
using world = mesh<pp, dp, tp>;

template <class Model, device_mesh Mesh>
constexpr auto begins = pipeline_plan<Model, Mesh>::begins;

using body = chain<linear<24, 16, split_output<tp>>, gelu, shard<0, dp, tp>, linear<16, 8>, linear<8, 8>>;
using marked = parallel<
    chain<stage<0>, linear<24, 16, split_output<tp>>, gelu, shard<0, dp, tp>, stage<1>, linear<16, 8>, linear<8, 8>>,
    data_parallel<dp>, pipeline<pp>>;

// 24 x 16 over two and an activation against 16 x 8 and 8 x 8: the cut lies before the second linear, behind the layout word.
static_assert(begins<parallel<body, data_parallel<dp>, pipeline<pp>>, world> == std::array{0, 3});
static_assert(begins<marked, world> == std::array{0, 4});

using first = pipeline_plan<marked, world>::stage<0>;
using second = pipeline_plan<marked, world>::stage<1>;
static_assert(first::place == 0 && second::place == 2);
static_assert(first::output::layout == placements_of<world, shard<0, dp, tp>>);
static_assert(std::is_same_v<first::output, second::input>);
// The parameters of the second stage are whole, the batch is cut by both axes.
static_assert(second::leaving == placements_of<world, shard<0, dp, tp>> && first::arriving == second::leaving);
static_assert(first::learns && !first::returns_gradient && second::returns_gradient);
static_assert(first::trainable().size() == 2 && second::trainable().size() == 4);
static_assert(pipeline_plan<marked, world>::bubble(4) == bubble<one_forward_one_backward>(2, 4));
static_assert(pipeline_plan<marked, world>::peak_live(0, 4) == 2);

// A block that is computed again costs four thirds: two of three then weigh as much as one and the rest.
using again = chain<recompute<linear<32, 32>>, recompute<linear<32, 32>>, recompute<linear<32, 32>>, linear<32, 32>,
                    linear<32, 32>>;
static_assert(begins<parallel<again, input<dynamic, 32>, pipeline<pp>>, mesh<pp>> == std::array{0, 2});

// Nothing learns before the second stage: no gradient is sent to the first.
using frozen =
    pipeline_plan<parallel<chain<flatten<>, relu, stage<1>, linear<4, 2>>, input<dynamic, 4>, pipeline<pp>>, mesh<pp>>;
static_assert(!frozen::stage<0>::learns && !frozen::stage<1>::returns_gradient);

// Marks say nothing to a model without a pipeline.
static_assert(plan<chain<stage<0>, linear<8, 4>, stage<1>, linear<4, 2>>, world>::trainable().size() == 4);

/// The least possible cost of the most expensive of `stages` runs of the entries from `first` on.
index_t least(std::vector<index_t> const& costs, std::size_t first, std::size_t stages) {
  index_t held = 0;
  if (stages == 1) {
    for (std::size_t i = first; i < costs.size(); ++i) held += costs[i];
    return held;
  }
  index_t best = std::numeric_limits<index_t>::max();
  for (std::size_t end = first + 1; costs.size() - end >= stages - 1; ++end) {
    held += costs[end - 1];
    best = std::min(best, std::max(held, least(costs, end, stages - 1)));
  }
  return best;
}

template <std::size_t Stages>
void check_balance(std::vector<index_t> const& costs) {
  const auto begins = balance<Stages>(costs);
  CHECK(begins[0] == 0);
  index_t most = 0;
  for (std::size_t s = 0; s < Stages; ++s) {
    const auto begin = static_cast<std::size_t>(begins[s]);
    const auto end = s + 1 < Stages ? static_cast<std::size_t>(begins[s + 1]) : costs.size();
    REQUIRE(begin < end);
    index_t held = 0;
    for (std::size_t i = begin; i < end; ++i) held += costs[i];
    most = std::max(most, held);
  }
  CHECK(most == least(costs, 0, Stages));
}

}  // namespace

TEST_CASE("balanced stages are as cheap as every way to cut allows") {
  for (std::uint64_t stream = 0; stream < 200; ++stream) {
    const philox draw(5, stream);
    std::vector<index_t> costs(5 + stream % 6);
    for (std::size_t i = 0; i < costs.size(); ++i)
      costs[i] = static_cast<index_t>(draw(i)[0] % (stream % 3 == 0 ? 4 : 1000));
    CAPTURE(stream);
    check_balance<1>(costs);
    check_balance<2>(costs);
    check_balance<3>(costs);
    check_balance<5>(costs);
  }
}
