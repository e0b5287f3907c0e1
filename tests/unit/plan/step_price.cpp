#include <tessera/layer/activation.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/collectives.hpp>
#include <tessera/plan/step_price.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

// Whole models: the rows of their layers, and a step on paper.

namespace {

using namespace tessera;
using tessera::index_t;

struct dp : axis<2> {};
struct tp : axis<2> {};
struct pp : axis<2> {};
using world = mesh<dp, tp>;

/// Kernels take 4 ms a kilobyte moved, and nothing else; an all-reduce of B bytes over two ranks takes 2 (L + B / 2
/// milliseconds).
constexpr machine_description slow(double latency) {
  return {.peak = {.float64 = 0, .float32 = 1e30, .float16 = 0, .bfloat16 = 0},
          .bytes_per_second = 250e3,
          .memory = 1,
          .levels = {{.ranks = 0, .link = {latency, 1e-3}, .name = "net"}}};
}
constexpr machine_description prompt = slow(0);
template <class Mesh>
constexpr auto costs = costs_on(Mesh::value, prompt);

/// Seconds that elements of four bytes take through memory.
constexpr double moved(double elements) { return elements * 4 / 250e3; }

using three = chain<linear<8, 8, no_bias>, linear<8, 8, no_bias>, linear<8, 8, no_bias>>;
constexpr double product = moved(8 * 8 + 2 * 16 * 8);  // 32 rows, 16 on each device along dp
constexpr double reduced = 2 * 64 * 4 / 2 * 1e-3;      // of one weight
constexpr double updated = moved(3 * 64);

template <class... Policies>
constexpr step_price priced(step_settings const& settings = {}) {
  return price_step<parallel<three, data_parallel<dp>, Policies...>, world>(prompt, costs<world>, settings);
}

}  // namespace

TEST_CASE("a step: passes, reductions that backward hides and those that it does not, update") {
  constexpr auto each = priced<fuse::each>();
  CHECK(each.forward == doctest::Approx(3 * product));
  // The first layer hands no gradient on.
  CHECK(each.backward == doctest::Approx(5 * product));
  CHECK(each.reduction == doctest::Approx(3 * reduced));
  // The last weight's reduction begins after two products, and the others wait for their turn.
  static_assert(reduced > 2 * product);
  CHECK(each.exposed == doctest::Approx(2 * product + 3 * reduced - 5 * product));
  CHECK(each.update == doctest::Approx(3 * updated));
  CHECK(each.total() == doctest::Approx(each.forward + 2 * product + 3 * reduced + 3 * updated));
  CHECK(each.gathers == 0);
  CHECK(each.bubble == 0);

  constexpr auto all = priced<fuse::all>();
  CHECK(all.exposed == doctest::Approx(3 * reduced));
  constexpr auto plain = priced<fuse::each>({.overlap = false});
  CHECK(plain.exposed == doctest::Approx(3 * reduced));
  // With Adam three values more of each element are read and two written.
  CHECK(priced<fuse::each>({.remembered = 2}).update == doctest::Approx(moved(7 * 3 * 64)));

  // Two parts of 16 rows: passes twice, reductions once.
  constexpr auto parts = priced<fuse::each>({.parts = 2});
  constexpr double half = moved(8 * 8 + 2 * 8 * 8);
  CHECK(parts.forward == doctest::Approx(2 * 3 * half));
  CHECK(parts.backward == doctest::Approx(2 * 5 * half));
  CHECK(parts.exposed == doctest::Approx(2 * half + 3 * reduced - 5 * half));
}

TEST_CASE("reductions that fit beside backward cost nothing but the last") {
  // Many rows: products are long.
  constexpr auto long_products = priced<fuse::each>({.unknown = 3200});
  constexpr double longer = moved(8 * 8 + 2 * 1600 * 8);
  static_assert(longer > reduced);
  CHECK(long_products.exposed == doctest::Approx(reduced));
  CHECK(long_products.total() == doctest::Approx(8 * longer + reduced + 3 * updated));
}

TEST_CASE("ranks that share the optimizer: reductions of slices, gathers that passes wait for") {
  using one = optimizer_parallel<dp, 1>;
  using two = optimizer_parallel<dp, 2>;
  using all_of_it = optimizer_parallel<dp, 3>;
  constexpr double gathered = reduced / 2;
  static_assert(gathered > product);
  constexpr auto first = priced<fuse::each, one>();
  CHECK(first.reduction == doctest::Approx(3 * reduced));
  CHECK(first.update == doctest::Approx(3 * updated / 2));
  CHECK(first.gathers == doctest::Approx(3 * gathered));
  // The first layer waits for its values, the others for what is left of theirs.
  CHECK(first.waiting == doctest::Approx(3 * gathered - 2 * product));
  constexpr auto second = priced<fuse::each, two>();
  CHECK(second.reduction == doctest::Approx(3 * reduced / 2));
  CHECK(second.waiting == doctest::Approx(first.waiting));
  // Level 3 gathers again in backward what another bucket has taken the place of.
  constexpr auto third = priced<fuse::each, all_of_it>();
  CHECK(third.gathers > second.gathers);
  CHECK(third.waiting > second.waiting);
  CHECK(third.reduction == doctest::Approx(second.reduction));
}

TEST_CASE("a pipeline: the bubble, messages between stages, reductions of a stage") {
  using line_world = mesh<pp, dp>;
  using two_stages =
      chain<linear<8, 8, no_bias>, linear<8, 8, no_bias>, stage<1>, linear<8, 8, no_bias>, linear<8, 8, no_bias>>;
  using model = parallel<two_stages, data_parallel<dp>, fuse::each, pipeline<pp>>;
  constexpr int parts = 4;
  const auto found = price_step<model, line_world>(prompt, costs<line_world>, {.unknown = 32, .parts = parts});
  constexpr double part = moved(8 * 8 + 2 * 4 * 8);
  constexpr double message = 4 * 8 * 4 * 1e-3;
  // The first stage sends values on and has three products backward, the second sends gradients and has four.
  constexpr double forward[] = {2 * part + message, 2 * part};
  constexpr double backward[] = {3 * part, 4 * part + message};
  CHECK(found.forward == doctest::Approx(parts * forward[1]));
  CHECK(found.backward == doctest::Approx(parts * backward[1]));
  // The second stage waits for the first values, the step for the first stage's last gradients.
  CHECK(found.bubble == doctest::Approx(forward[0] + backward[0]).epsilon(1e-6));
  CHECK(found.reduction == doctest::Approx(2 * reduced));
  CHECK(found.update == doctest::Approx(2 * updated));
  // Against the shares that all schedules have with stages that are alike.
  const auto once = price_step<model, line_world>(prompt, costs<line_world>, {.unknown = 8, .parts = 1});
  CHECK(once.bubble == doctest::Approx(forward[0] + backward[0]).epsilon(1e-6));
}

namespace {

/// Whether the rows have the collectives of the model's list, each as often and with the same bytes.
template <class Model, class Mesh>
void check_rows(int least) {
  constexpr auto list = collectives<Model, Mesh>;
  const auto layers = price_model<Model, Mesh>(prompt, costs<Mesh>, {});
  struct entry {
    phase when;
    collective kind;
    axis_set group;
    double bytes;
    bool operator==(entry const&) const = default;
  };
  std::vector<entry> wanted;
  for (int i = 0; i < list.size(); ++i)
    if (list[i].when == phase::forward || list[i].when == phase::backward)
      wanted.push_back({list[i].when, list[i].kind, list[i].group, static_cast<double>(list.bytes(i, 32))});
  std::size_t count = 0;
  double forward = 0;
  double backward = 0;
  index_t parameter_bytes = 0;
  int parameters = 0;
  for (auto const& row : layers.rows) {
    double sums[2] = {0, 0};
    for (auto const& one : row.calls) {
      const entry found{one.call.when, one.call.kind, one.call.group, one.bytes};
      const auto there = std::find(wanted.begin(), wanted.end(), found);
      CAPTURE(row.path.text());
      CAPTURE(to_string(one.call.kind));
      CHECK(there != wanted.end());
      if (there != wanted.end()) wanted.erase(there);
      sums[one.call.when == phase::backward] += one.seconds;
      ++count;
    }
    CHECK(row.forward_messages == doctest::Approx(sums[0]));
    CHECK(row.backward_messages == doctest::Approx(sums[1]));
    forward += row.forward;
    backward += row.backward;
    CHECK(row.first_parameter == parameters);
    parameters += row.parameters;
    parameter_bytes += row.parameter_bytes;
  }
  CHECK(wanted.empty());
  CHECK(count >= static_cast<std::size_t>(least));

  const auto step = price_step<Model, Mesh>(prompt, costs<Mesh>, {});
  CHECK(step.forward == doctest::Approx(forward));
  CHECK(step.backward == doctest::Approx(backward));
  CHECK(layers.additive() >= forward + backward);
  double passes = 0;
  for (auto const& pass : layers.backward) passes += pass.seconds;
  CHECK(passes == doctest::Approx(backward));
  CHECK(parameters == static_cast<int>(plan<Model, Mesh>::trainable().size()));
  index_t bytes = 0;
  for (auto const& p : plan<Model, Mesh>::parameters()) bytes += p.template local_size<Mesh>({}) * 4;
  CHECK(parameter_bytes == bytes);
}

struct widening : chain<linear<16, 64, split_output<tp>>, gelu, linear<64, 16, split_input<tp>>> {};
struct encoder : chain<residual<chain<layer_norm<16>, multi_head_attention<16, 4, split_heads<tp>>>>,
                       residual<chain<layer_norm<16>, widening>>> {};
struct bottleneck : residual<chain<conv2d<4, 4, window<3, 1, 1>, no_bias, split_output<tp>>, batch_norm2d<4>, relu,
                                   conv2d<4, 8, window<3, 1, 1>, no_bias, split_input<tp>>, batch_norm2d<8>>,
                             chain<conv2d<4, 8, window<1>, no_bias>, batch_norm2d<8>>> {};

}  // namespace

TEST_CASE("rows have the collectives of the model's list and add up to its passes") {
  SUBCASE("linear layers and layouts") {
    check_rows<
        parallel<chain<linear<16, 32, split_output<tp>>, relu, shard<0, dp, tp>, linear<32, 16>>, data_parallel<dp>>,
        world>(2);
  }
  SUBCASE("a transformer block") { check_rows<parallel<encoder, input<dynamic, 8, 16>, data_parallel<dp>>, world>(4); }
  SUBCASE("a block that is computed again") {
    check_rows<parallel<chain<linear<16, 16>, recompute<encoder>>, input<dynamic, 8, 16>, data_parallel<dp>>, world>(6);
  }
  SUBCASE("a residual of convolutions") {
    check_rows<parallel<chain<bottleneck, relu>, input<dynamic, 4, 8, 8>, data_parallel<dp>>, world>(7);
  }
  SUBCASE("cut height and sequences") {
    check_rows<parallel<chain<conv2d<4, 4, window<3, 1, 1>>, relu, conv2d<4, 4, window<3, 2, 1>>>,
                        input<dynamic, 4, 16, 16>, input_layout<shard<0, dp>, shard<2, tp>>>,
               world>(3);
    check_rows<parallel<chain<linear<16, 16>, multi_head_attention<16, 4, causal>>, input<dynamic, 8, 16>,
                        input_layout<shard<0, dp>, shard<1, tp>>>,
               world>(2);
  }
}

TEST_CASE("rows name their layers as parameters are named") {
  const auto layers = price_model<parallel<chain<linear<16, 16>, shard<0, dp>, encoder>, input<dynamic, 8, 16>>, world>(
      prompt, costs<world>, {});
  std::vector<std::string> names;
  for (auto const& row : layers.rows) names.push_back(std::string(row.path.text()) + " " + std::string(row.layer));
  REQUIRE(names.size() == 11);
  CHECK(names[0] == "0 linear<16, 16>");
  CHECK(names[1] == " layout");
  CHECK(names[2] == "1.0.branch.0 layer_norm<16>");
  CHECK(names[4] == "1.0 sum");
  CHECK(names[6].substr(0, 25) == "1.1.branch.1.0 linear<16,");
  CHECK(layers.rows[6].cut[0] == "batch");
  CHECK(layers.rows[6].cut[1] == "output");
  CHECK(layers.rows[0].cut[0].empty());
  CHECK(names[9] == "1.1 sum");
  CHECK(names[10] == " output");
}

TEST_CASE("tied weights are reduced and updated once") {
  struct words;
  using tied_model = parallel<chain<embedding<20, 8, tied<words>>, linear<8, 20, no_bias, tied<words>>>, input<dynamic>,
                              data_parallel<dp>, fuse::each>;
  const auto step = price_step<tied_model, world>(prompt, costs<world>, {});
  CHECK(step.reduction == doctest::Approx(2 * 160 * 4 / 2 * 1e-3));
  CHECK(step.update == doctest::Approx(moved(3 * 160)));
}
