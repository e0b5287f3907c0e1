#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/positions.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/layer/softmax.hpp>
#include <tessera/plan/layer_cost.hpp>
#include <tessera/plan/layer_price.hpp>

#include <doctest/doctest.h>

#include <vector>

// The price of a layer in a layout, by hand.

namespace {

using namespace tessera;
using tessera::index_t;

struct dp : axis<2> {};
struct tp : axis<4> {};
using world = mesh<dp, tp>;

/// A microsecond an operation, a millisecond a byte through memory, a second a launch; links that cost 1000 seconds and
/// a second a byte along tp, ten times that along dp.
constexpr machine_description slow{
    .peak = {.float64 = 0, .float32 = 1e6, .float16 = 0, .bfloat16 = 0},
    .bytes_per_second = 1e3,
    .memory = 1,
    .launch = 1,
    .levels = {{.ranks = 4, .link = {1e3, 1}, .name = "inner"}, {.ranks = 0, .link = {1e4, 10}, .name = "outer"}}};
constexpr auto costs = costs_on(world::value, slow);

/// The layouts of a layer with its own split words, for an input cut by rows along dp.
template <class Layer, auto Extents, bool Cut = true>
constexpr resolved_layer<2> resolved = bound_layer<
    Layer, world,
    flow<Extents, Cut ? placements<2>{{shard_placement(0), replicated_placement()}} : placements<2>{}>>::resolved;

template <class Layer, auto Extents, bool Wants = true, index_t Unknown = 1>
constexpr layer_price price = price_of<Layer, Extents, world>(slow, costs, resolved<Layer, Extents>, Wants, 4, Unknown);

constexpr double kernel(double flops, double elements) {
  const double moving = elements * 4 / 1e3;
  const double computing = flops / 1e6;
  return 1 + (moving > computing ? moving : computing);
}

constexpr shape<2> rows{{32, 16}};
constexpr shape<4> images{{8, 6, 16, 16}};

}  // namespace

TEST_CASE("linear: one product forward, two backward, blocks of the device that has most") {
  using whole = linear<16, 100>;
  constexpr auto p = price<whole, rows>;
  constexpr double product = kernel(2.0 * 16 * 16 * 100, 16 * 16 + 16 * 100 + 1600);
  CHECK(p.forward == doctest::Approx(product));
  CHECK(p.backward == doctest::Approx(2 * product));
  CHECK(price<whole, rows, false>.backward == doctest::Approx(product));
  static_assert(p.parameter_bytes == 1700 * 4 && p.gradient_bytes == 1700 * 4);
  // Both gradients are sums over dp: twice half of the bytes at 10 seconds.
  CHECK(p.gradient == doctest::Approx(2 * 1700 * 4 * 10 / 2));

  // Outputs over 4: 100 are 25 each; 102 are 26 on the first.
  constexpr auto cut = price<linear<16, 102, split_output<tp>>, rows>;
  CHECK(cut.forward == doctest::Approx(kernel(2.0 * 16 * 16 * 26, 16 * 16 + 16 * 26 + 16 * 26)));
  static_assert(cut.parameter_bytes == (16 * 26 + 26) * 4);
  CHECK(cut.gradient == doctest::Approx(2 * (16 * 26 + 26) * 4 * 10 / 2));

  // Inputs over 4: each makes all outputs from 4 inputs.
  CHECK(price<linear<16, 100, split_input<tp>>, rows>.forward ==
        doctest::Approx(kernel(2.0 * 16 * 4 * 100, 16 * 4 + 16 * 100 + 400)));
  // Rows that only run time knows, 64 of them: 32 on each device along dp.
  CHECK(price<whole, shape<2>{{dynamic, 16}}, true, 64>.forward ==
        doctest::Approx(kernel(2.0 * 32 * 16 * 100, 32 * 16 + 32 * 100 + 1600)));
}

TEST_CASE("layers without weights go through memory") {
  constexpr auto p = price<relu, rows>;
  CHECK(p.forward == doctest::Approx(kernel(0, 2 * 16 * 16)));
  CHECK(p.backward == doctest::Approx(kernel(0, 3 * 16 * 16)));
  static_assert(price<relu, rows, false>.backward == 0);
  static_assert(p.parameter_bytes == 0 && p.gradient == 0);
  // Images lie with channels last: a flattened one is a copy, unless height and width are 1.
  CHECK(price<flatten<>, images>.forward == doctest::Approx(kernel(0, 2.0 * 4 * 6 * 256)));
  static_assert(price<flatten<>, shape<4>{{8, 6, 1, 1}}>.forward == 0);
  // Rows that are looked up: 16 indices of one device; the gradient of the table is written whole.
  using table = embedding<1000, 16>;
  constexpr shape<1> words{{32}};
  CHECK(price<table, words, false>.forward == doctest::Approx(kernel(0, 16 + 2 * 256)));
  CHECK(price<table, words, false>.backward == doctest::Approx(kernel(0, 16 + 2 * 256 + 16000)));
  // A table of positions is added, not multiplied with.
  CHECK(price<learned_positions<64, 16>, shape<3>{{4, 32, 16}}>.forward == doctest::Approx(kernel(0, 2 * 2 * 32 * 16)));
}

TEST_CASE("convolution: positions of the output times the weight; halos along a cut height") {
  using conv = conv2d<6, 10, window<3, 1, 1>, no_bias>;
  constexpr double weight = 10 * 6 * 9;
  CHECK(price<conv, images>.forward ==
        doctest::Approx(kernel(2 * weight * 4 * 256, 4 * 6 * 256 + 4 * 10 * 256 + weight)));
  CHECK(price<conv2d<6, 10, window<3, 1, 1>, no_bias, groups<2>>, images>.forward ==
        doctest::Approx(kernel(2 * weight / 2 * 4 * 256, 4 * 6 * 256 + 4 * 10 * 256 + weight / 2)));
  using tall = conv2d<6, 10, window<3, 1, 1>, no_bias, split_height<tp>>;
  // Two messages, a row of all channels from each side.
  constexpr double halo = 2 * 1e3 + 4.0 * 2 * 4 * 6 * 16;
  CHECK(price<tall, images>.forward ==
        doctest::Approx(kernel(2 * weight * 4 * 64, 4 * 6 * 64 + 4 * 10 * 64 + weight) + halo));
  CHECK(price<tall, images>.backward ==
        doctest::Approx(2 * kernel(2 * weight * 4 * 64, 4 * 6 * 64 + 4 * 10 * 64 + weight) + halo));
  CHECK(price<tall, images, false>.backward ==
        doctest::Approx(kernel(2 * weight * 4 * 64, 4 * 6 * 64 + 4 * 10 * 64 + weight)));
  // Windows of 2 by 2 that do not overlap need no rows of others.
  using pool = max_pool2d<window<2, 2>, split_height<tp>>;
  constexpr auto pooled = price<pool, images>;
  CHECK(pooled.forward == doctest::Approx(2 * 1e3 + kernel(0, 4 * 6 * 16 * 4 + 4 * 6 * 8 * 2)));
}

TEST_CASE("norms: their reductions, and what they read twice") {
  using norm = batch_norm2d<6>;
  constexpr double size = 4 * 6 * 256;
  // An all-reduce of two sums a channel over dp, one round each way at 10^4 seconds.
  constexpr double sums = 2 * (1e4 + 10 * 0.5 * 4 * 2 * 6);
  CHECK(price<norm, images>.forward == doctest::Approx(kernel(0, size) + kernel(0, 2 * size) + sums));
  CHECK(price<norm, images>.backward == doctest::Approx(kernel(0, 2 * size) + kernel(0, 3 * size) + sums));
  static_assert(price<norm, images>.parameter_bytes == 4 * 6 * 4 && price<norm, images>.gradient_bytes == 2 * 6 * 4);
  static_assert(price<norm, images>.gradient == 0);  // they come out whole
  using rows_norm = layer_norm<16>;
  CHECK(price<rows_norm, rows>.forward == doctest::Approx(kernel(0, 2 * 256)));
  CHECK(price<rows_norm, rows>.backward == doctest::Approx(kernel(0, 2 * 256) + kernel(0, 3 * 256)));
}

TEST_CASE("attention: scores beside the projections, rings along a cut sequence") {
  constexpr shape<3> sequences{{8, 32, 64}};  // 4 of them on each device along dp
  using plain = multi_head_attention<64, 4, no_bias>;
  constexpr double positions = 4 * 32;
  constexpr double heads = positions * 64;
  constexpr double product = 2 * positions * 64 * 64;
  const auto projections = [](double part) {
    return kernel(3 * product * part, positions * 64 + 3 * 64 * 64 * part + 3 * heads * part) +
           kernel(product * part, positions * 64 + 64 * 64 * part + heads * part);
  };
  CHECK(price<plain, sequences>.forward == doctest::Approx(projections(1) + kernel(4 * heads * 32, 4 * heads)));
  using by_heads = multi_head_attention<64, 4, no_bias, split_heads<tp>>;
  CHECK(price<by_heads, sequences>.forward == doctest::Approx(projections(0.25) + kernel(heads * 32, heads)));
  // On average half of the positions are seen, and the one itself.
  using causal_heads = multi_head_attention<64, 4, no_bias, causal>;
  CHECK(price<causal_heads, sequences>.forward ==
        doctest::Approx(projections(1) + kernel(4 * heads * 16.5, 4 * heads)));
  // Of 8 positions of a device the last ones see 28.5; keys and values of 24 others arrive in three messages.
  using ring = multi_head_attention<64, 4, no_bias, causal, split_sequence<tp>>;
  constexpr double q = heads / 4;
  const double projected =
      kernel(3 * product / 4, positions * 16 + 3 * 64 * 64 + 3 * q) + kernel(product / 4, positions * 16 + 64 * 64 + q);
  CHECK(price<ring, sequences>.forward ==
        doctest::Approx(projected + kernel(4 * q * 28.5, 4 * q) + 3 * 1e3 + 4.0 * 4 * 24 * 2 * 64));
}

TEST_CASE("work of bound layers is that of the same kernels") {
  using in = flow<rows, placements<2>{{shard_placement(0), replicated_placement()}}>;
  using layer = linear<16, 102, split_output<tp>>;
  constexpr auto forward = forward_work<bind<layer, world, in>>();
  static_assert(forward.flops == 2.0 * 16 * 16 * 26);
  static_assert(forward.elements == 16 * 16 + 16 * 26 + 16 * 26 && forward.kernels == 1);
  constexpr auto backward = backward_work<bind<layer, world, in>>();
  static_assert(backward.flops == 2 * forward.flops && backward.elements == 2 * forward.elements);
  static_assert(backward_work<bind<layer, world, in>>(false).flops == forward.flops);
}

TEST_CASE("collectives of layers cost what their lists say") {
  // The elements of the list against those of the price, on machines that only charge for bytes.
  constexpr machine_description bytes_only{.peak = {.float64 = 0, .float32 = 1e30, .float16 = 0, .bfloat16 = 0},
                                           .bytes_per_second = 1e30,
                                           .memory = 1,
                                           .levels = {{.ranks = 0, .link = {0, 1}, .name = "net"}}};
  constexpr auto net = costs_on(world::value, bytes_only);
  const auto check = [&]<class Layer, auto Extents>() {
    using in = flow<Extents, placements<2>{{shard_placement(0), replicated_placement()}}>;
    using bound = bind<Layer, world, in>;
    const auto found = price_of<Layer, Extents, world>(bytes_only, net, bound::resolved, true, 4, 8);
    for (const phase when : {phase::forward, phase::backward}) {
      const auto calls = detail::own_calls<Layer, Extents, world>(when, bound::resolved, true);
      double wanted = 0;
      for (auto const& call : calls) {
        index_t most = 0;
        for (int r = 0; r < world::devices; ++r)
          most = std::max(most, call.template elements<world>(8, world::coordinates(r)));
        const double g = world::group_size(call.group);
        wanted += 4 * static_cast<double>(most) * (call.kind == collective::all_reduce ? 2 * (g - 1) / g : 1);
      }
      CHECK((when == phase::forward ? found.forward : found.backward) == doctest::Approx(wanted));
      CHECK(wanted > 0);
    }
  };
  check.operator()<batch_norm2d<6>, images>();
  check.operator()<layer_norm<16, split_features<tp>>, rows>();
  check.operator()<softmax<0>, shape<2>{{8, 16}}>();
  check.operator()<conv2d<6, 10, window<3, 1, 1>, split_height<tp>>, images>();
  check.operator()<conv2d<6, 10, window<3, 1, 1>, split_height<dp>, split_width<tp>>, images>();
  check.operator()<conv2d<6, 10, window<7, 2, 3>, split_height<tp>>, shape<4>{{8, 6, 64, 64}}>();
  check.operator()<max_pool2d<window<3, 2, 1>, split_height<tp>>, shape<4>{{8, 6, 64, 64}}>();
  check.operator()<multi_head_attention<64, 4, split_sequence<tp>>, shape<3>{{8, 32, 64}}>();
  check.operator()<multi_head_attention<64, 4, causal, split_sequence<tp>>, shape<3>{{8, 30, 64}}>();
}
