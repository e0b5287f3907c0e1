// Plans that the search finds while compiling: where the cheapest is one that experts know, it is that type.

#include <tessera/layer/activation.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/plan/auto_parallel.hpp>
#include <tessera/plan/collectives.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

struct tp : axis<4> {};
using line = mesh<tp>;
struct dp : axis<2> {};
using grid = mesh<dp, tp>;

/// Fast devices with links as between accelerators of a server.
struct server {
  static constexpr machine_description about{.peak = {0, 1e13, 1e14, 1e14},
                                             .reachable = 0.5,
                                             .half = 1e8,
                                             .bytes_per_second = 1e12,
                                             .memory = index_t{32} << 30,
                                             .launch = 1e-6,
                                             .levels = {{0, {2e-6, 1 / 30e9}, "links"}}};
};

template <class Model, class Input, class Mesh, class... Options>
using search = auto_parallel_search<Model, Input, Mesh, server, Options...>;

// Megatron's plan for two wide layers, where the batch is too small to be cut: columns, then rows, and one sum.
struct mlp : chain<linear<4096, 16384>, gelu, linear<16384, 4096>> {};
using found_mlp = search<mlp, input<1, 32, 4096>, line>;
static_assert(std::is_same_v<found_mlp::model, chain<linear<4096, 16384, split_output<tp>>, gelu,
                                                     linear<16384, 4096, split_input<tp>>>>);
static_assert(collectives<found_mlp::type, line>.count(phase::backward) == 0);

// The same where the batch is large: data parallelism, and nothing is sent but gradients.
using found_batch = search<mlp, input<65536, 1, 4096>, line>;
static_assert(std::is_same_v<found_batch::model, mlp::composition>);
static_assert(plan<found_batch::type, line>::output::layout[0] == shard_placement(0));
static_assert(collectives<found_batch::type, line>.count(phase::forward) == 0);

// A batch so large that data parallelism over all devices is the fastest, and devices without the memory for it. What
// experts do then: columns and rows of the weights over a few of them, rows of the batch over the others. The optimizer
// remembers two values of each parameter.
struct as_adam {
  static constexpr index_t values_per_element() { return 2; }
};
template <index_t Bytes>
using within = search<mlp, input<131072, 1, 4096>, grid, memory_limit<Bytes, as_adam>>;
using roomy = within<4'600'000'000>;
static_assert(std::is_same_v<roomy::model, mlp::composition>);
static_assert(roomy::bytes > 4'500'000'000);
using tight = within<4'000'000'000>;
static_assert(std::is_same_v<tight::model, chain<linear<4096, 16384, split_output<dp>>, gelu,
                                                 linear<16384, 4096, split_input<dp>>>>);
static_assert(std::is_same_v<tight::type, parallel<tight::model, input<131072, 1, 4096>,
                                                   input_layout<layout<shard<0, tp>>>>>);
static_assert(tight::bytes <= 4'000'000'000 && tight::time > roomy::time);
// A limit that the fastest plan meets changes nothing.
static_assert(std::is_same_v<roomy::type, search<mlp, input<131072, 1, 4096>, grid>::type>);
static_assert(std::is_same_v<search<mlp, input<131072, 1, 4096>, grid, machine_memory<as_adam>>::type, roomy::type>);
static_assert(std::is_same_v<search<mlp, input<131072, 1, 4096>, grid, machine_memory<as_adam, 12>>::type, tight::type>);

// Convolutions of a large batch: data parallelism over both axes, statistics over the whole batch.
using block = model::bottleneck_block<256, 64, 1>;
using found_block = search<block, input<256, 256, 56, 56>, grid>;
static_assert(plan<found_block::type, grid>::output::layout[0].is_shard(0) &&
              plan<found_block::type, grid>::output::layout[1].is_shard(0));
static_assert([] {
  for (auto const& call : collectives<found_block::type, grid>)
    if (call.kind != collective::all_reduce || call.group != grid::all) return false;
  return true;
}());

// One large image: its height and width are cut.
struct features : chain<conv2d<3, 32, window<3, 1, 1>>, relu, conv2d<32, 32, window<3, 1, 1>>, relu> {};
using found_image = search<features, input<1, 3, 2048, 2048>, grid>;
static_assert(plan<found_image::type, grid>::output::layout[0].dim >= 2 &&
              plan<found_image::type, grid>::output::layout[1].dim >= 2);

// A million classes: the classes are cut, for the loss too.
struct classifier : chain<linear<64, 1000000, no_bias>> {};
using found_classes = search<classifier, input<64, 64>, line>;
static_assert(std::is_same_v<found_classes::model, chain<linear<64, 1000000, no_bias, split_output<tp>>>>);

// Nothing costs more than with fewer splits to choose from, and what is left out is left out.
using found_rows = search<mlp, input<16384, 4096>, line, only<split_batch>>;
using found_any = search<mlp, input<16384, 4096>, line>;
static_assert(found_any::time <= found_rows::time);
static_assert(plan<found_rows::type, line>::output::layout[0].is_shard(0));

// Words that a layer has stay.
struct pinned : chain<linear<4096, 16384, split_input<tp>>, gelu, linear<16384, 4096>> {};
using found_pinned = search<pinned, input<16384, 4096>, line>;
static_assert(std::is_same_v<type_at<0, found_pinned::model::layers>, linear<4096, 16384, split_input<tp>>> ||
              std::is_same_v<type_at<1, found_pinned::model::layers>, linear<4096, 16384, split_input<tp>>>);
static_assert(found_pinned::time >= found_any::time);

// A layer of one's own takes part.
struct doubled : linear<64, 64> {};
using found_own = search<chain<doubled, relu>, input<8, 1, 64>, line>;
static_assert(found_own::time > 0);

// [three]
/// A link of 1 us and 1 ns a byte, products at an operation a nanosecond, and memory that costs nothing.
struct round_figures {
  static constexpr machine_description about{
      .peak = {.float64 = 0, .float32 = 1e9, .float16 = 0, .bfloat16 = 0},
      .bytes_per_second = 1e18,
      .memory = 1'000'000'000,
      .levels = {{.ranks = 0, .link = {.latency = 1e-6, .seconds_per_byte = 1e-9}, .name = "link"}}};
};
struct way : axis<2> {};
struct three_layers : chain<linear<64, 256, no_bias>, relu, linear<256, 8, no_bias>> {};
template <class... Options>
using search_three = auto_parallel_search<three_layers, input<16, 64>, mesh<way>, round_figures, Options...>;

// Rows: nothing is sent but the gradients of both weights.
using rows_cut = search_three<only<split_batch>>;
static_assert(std::is_same_v<rows_cut::model, three_layers::composition>);
static_assert(rows_cut::time / 1000 == 622'592 + 65'536 + 8'192);

// Columns of both weights: relu is not to be cut, so values are gathered before it and after the last
// layer. The gradient of the second layer's input is a partial sum, which relu passes on.
using columns_cut = search_three<only<split_output>>;
static_assert(std::is_same_v<columns_cut::model,
                             chain<linear<64, 256, no_bias, split_output<way>>, layout<>, relu,
                                   linear<256, 8, no_bias, split_output<way>>, layout<>>>);
static_assert(columns_cut::time / 1000 == 622'592 + 2 * 9'192 + 1'256);

// Columns, then rows: one all-reduce of the output.
using any_cut = search_three<>;
static_assert(std::is_same_v<any_cut::model,
                             chain<linear<64, 256, no_bias, split_output<way>>, relu,
                                   linear<256, 8, no_bias, split_input<way>>>>);
static_assert(any_cut::time / 1000 == 622'592 + 2 * 1'256);
// [three]
// The first pass knew that time, but for the picosecond that an input counts which is not cut.
static_assert(any_cut::search::bound / 1000 == 625'104);
// What is left from the value between the first layer and relu on: whole, whole with its gradient as a partial sum, a
// partial sum, rows, columns.
template <edge_code Code>
constexpr search_time rest_from = any_cut::search::rest::least<1>.at[ways_to_make<mesh<way>::value, 2>.place(Code)] / 1000;
static_assert(rest_from<edge::whole> == 110'008 && rest_from<edge::partial_gradient> == 99'560);
static_assert(rest_from<edge::partial> == 119'200);
static_assert(rest_from<edge::cut(0, 0)> == 106'496 && rest_from<edge::cut(1, 0)> == 100'816);
// Of all ways to make it, one is through before the limit.
static_assert([] {
  int ways = 0;
  for (const search_time t : any_cut::search::front::before<1>::front.time) ways += t < tessera::detail::unreachable_time;
  return ways;
}() == 1);

}  // namespace
