// The collectives of split models, pinned while compiling.

#include <tessera/layer/linear.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/plan/collectives.hpp>

namespace {

using namespace tessera;

struct dp : axis<2> {};
struct tp : axis<4> {};
using world = mesh<dp, tp>;
constexpr axis_set along_dp = world::set_of<dp>;
constexpr axis_set along_tp = world::set_of<tp>;

// Megatron's MLP between two other layers: one all-reduce forward, one backward, of the activations.
using mlp = chain<linear<16, 16>, relu, linear<16, 64, split_output<tp>>, relu, linear<64, 16, split_input<tp>>>;
using mlp_calls = collective_list<parallel<mlp, data_parallel<dp>>, world>;
constexpr mlp_calls mlp_list;
static_assert(mlp_list.count(phase::forward) == 1);
static_assert(mlp_list[0].kind == collective::all_reduce && mlp_list[0].group == along_tp);
static_assert(mlp_list.bytes(0, 32) == 16 * 16 * 4);  // half of the rows
static_assert(mlp_list.count(phase::backward) == 1);
static_assert(mlp_list[1].kind == collective::all_reduce && mlp_list[1].group == along_tp);
static_assert(mlp_list.bytes(1, 32) == 16 * 16 * 4);
// All gradients fit one bucket, reduced over the batch axis: the blocks of this rank, not the whole parameters.
static_assert(mlp_list.count(phase::gradient) == 1 && mlp_list[2].group == along_dp);
static_assert(mlp_list.elements(2, 32, {0, 0}) == (16 * 16 + 16) + (16 * 16 + 16) + (16 * 16 + 16));

// As the first block of a model nobody wants the input's gradient, so there is nothing to reduce backward.
using first_block = chain<linear<16, 64, split_output<tp>>, relu, linear<64, 16, split_input<tp>>>;
static_assert(collectives<first_block, world>.size() == 1);

// An axis that is to cut the batch and a layer's outputs does one after the other: the batch is gathered first.
using cut_twice = parallel<linear<16, 64, split_output<dp>>, data_parallel<dp>>;
static_assert(collectives<cut_twice, world>[0].kind == collective::all_gather);
static_assert(collectives<cut_twice, world>[0].group == along_dp);
static_assert(collectives<cut_twice, world>.count(phase::gradient) == 0);
// Elsewhere nothing is gathered.
using cut_once = parallel<linear<16, 64, split_output<tp>>, data_parallel<dp>>;
static_assert(collectives<cut_once, world>.count(collective::all_gather) == 0);

// The next layer is cut by features: the partial sum is reduce-scattered, never all-reduced.
using scattered = chain<linear<16, 64, split_input<tp>>, relu, linear<64, 8, split_input<tp>>>;
static_assert(collectives<scattered, world>.count(phase::forward) == 2);
static_assert(collectives<scattered, world>[0].kind == collective::all_reduce);
using scattered_to = chain<linear<16, 64, split_input<tp>>, shard<1, tp>, relu, linear<64, 8, split_input<tp>>>;
static_assert(collectives<scattered_to, world>[0].kind == collective::reduce_scatter);

// The residual block: one all-reduce forward and one backward over tp; batch norm one each over dp.
template <class... Tp>
using block_in_context = parallel<chain<conv2d<3, 8, window<3, 1, 1>>, model::residual_block<8, Tp...>>,
                                  input<dynamic, 3, 8, 8>, data_parallel<dp>>;
constexpr collective_list<block_in_context<tp>, world> block_list;
constexpr int along(auto const& list, phase when, axis_set group) {
  int n = 0;
  for (auto const& call : list) n += call.when == when && call.group == group;
  return n;
}
static_assert(along(block_list, phase::forward, along_tp) == 1);
static_assert(along(block_list, phase::backward, along_tp) == 1);
static_assert(along(block_list, phase::forward, along_dp) == 2);
static_assert(along(block_list, phase::backward, along_dp) == 2);

// Data parallel alone: nothing but batch norm and the bucket.
constexpr collective_list<block_in_context<>, world> plain_list;
static_assert(along(plain_list, phase::forward, along_tp) == 0 && along(plain_list, phase::backward, along_tp) == 0);
static_assert(plain_list.count(phase::forward) == 2 && plain_list.count(phase::backward) == 2);
static_assert(plain_list.count(phase::gradient) == 1);

// The ResNet of the example, data parallel: nine batch norms, one bucket.
using resnet = parallel<model::resnet_small<10>, input<dynamic, 1, 28, 28>, data_parallel<dp>>;
static_assert(collectives<resnet, world>.count(phase::forward) == 9);
static_assert(collectives<resnet, world>.count(phase::backward) == 9);
static_assert(collectives<resnet, world>.count(phase::gradient) == 1);
// Split by channels too: each of three units gathers once and each of three blocks reduces once, forward; the classes
// stay cut.
using split_resnet = parallel<model::resnet_small<10, tp>, input<dynamic, 1, 28, 28>, data_parallel<dp>>;
static_assert(along(collectives<split_resnet, world>, phase::forward, along_tp) == 6);
static_assert(collectives<split_resnet, world>.count(collective::all_gather) == 3);

// On one device nothing is sent at all.
struct one : axis<1> {};
static_assert(collectives<parallel<model::resnet_small<10, one>, input<dynamic, 1, 28, 28>, data_parallel<one>>,
                          mesh<one>>.size() == 0);

// Fusion by index, counted from the last parameter; by bytes; not at all.
template <class Policy>
constexpr int buckets = collectives<parallel<mlp, data_parallel<dp>, Policy>, world>.count(phase::gradient);
static_assert(buckets<fuse::all> == 1);
static_assert((buckets<fuse::at<2, 4>>) == 3);
static_assert(buckets<fuse::each> == 6);
static_assert(buckets<fuse::bytes<1>> == 6);
static_assert(buckets<fuse::bytes<1200>> == 3);

// Bytes are those of the device that holds most, also where that is not device 0.
struct two : axis<2> {};
struct pair_axis : axis<2> {};
using square = mesh<two, pair_axis>;
using reordered = parallel<chain<linear<6, 5>, shard<0, two, pair_axis>, shard<0, pair_axis, two>, linear<5, 3>>>;
static_assert(collectives<reordered, square>[0].kind == collective::all_to_all);
static_assert(collectives<reordered, square>.elements(0, 8, {0, 0}) == 0);
static_assert(collectives<reordered, square>.bytes(0, 8) == 2 * 5 * 4);

// The hash that ranks compare tells plans apart: by mesh, layouts, fusion and element type.
struct four : axis<4> {};
constexpr auto hash_of_mlp = hash_of(mlp_list);
static_assert(hash_of_mlp == hash_of(collectives<parallel<mlp, data_parallel<dp>>, world>));
static_assert(hash_of_mlp != hash_of(collectives<parallel<mlp, data_parallel<dp>>, world, double>));
static_assert(hash_of_mlp != hash_of(collectives<parallel<mlp, data_parallel<dp>, fuse::each>, world>));
static_assert(hash_of_mlp != hash_of(collectives<mlp, world>));
static_assert(hash_of(collectives<parallel<linear<8, 8>, data_parallel<two>>, mesh<two>>) !=
              hash_of(collectives<parallel<linear<8, 8>, data_parallel<four>>, mesh<four>>));

}  // namespace
