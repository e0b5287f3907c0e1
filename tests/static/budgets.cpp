// The collectives of each split of the layers, forward and backward, pinned while compiling: kind, axes, and the bytes
// that a device receives. docs/reference/budgets.md compares them with those of other systems.

#include "../support/split_layers.hpp"

#include <tessera/layer/group_norm.hpp>
#include <tessera/layer/rms_norm.hpp>

#include <initializer_list>

namespace {

using namespace split_layers;
using enum phase;
using enum collective;
using tessera::index_t;

struct pinned_call {
  phase when;
  collective kind;
  axis_set group;
  index_t received;
};

/// Whether a step makes exactly these collectives, in this order.
template <class Model, class Mesh>
constexpr bool makes(std::initializer_list<pinned_call> wanted) {
  constexpr collective_list<Model, Mesh> list;
  int i = 0;
  for (auto const& call : wanted) {
    if (i == list.size() || list[i].when != call.when || list[i].kind != call.kind || list[i].group != call.group ||
        received(list, i) != call.received)
      return false;
    ++i;
  }
  return i == list.size();
}

constexpr axis_set along_x = line::set_of<x>;
constexpr axis_set along_dp = grid::set_of<dp>;
constexpr axis_set along_tp = grid::set_of<tp>;
constexpr axis_set along_both = grid::all;
template <class... Cuts>
using cut = layout<Cuts...>;

// Activations of 1 MiB a rank of dp: three quarters of that to gather or to scatter along tp.
constexpr index_t three_quarters = 3 << 18;

// Perceptron: parameters of a rank are half of 2 x 512 x 2048, and biases.
constexpr index_t mlp_gradients = 4 * (2 * 512 * 2048 / 4 + 2048 / 4 + 512);
static_assert(makes<mlp_step<whole>, grid>({{forward, all_reduce, along_tp, 2 * three_quarters},
                                            {backward, all_reduce, along_tp, 2 * three_quarters},
                                            {gradient, all_reduce, along_dp, mlp_gradients}}));
template <class Edge>
constexpr bool mlp_gathers_and_scatters =
    makes<mlp_step<Edge>, grid>({{forward, all_gather, along_tp, three_quarters},
                                 {forward, reduce_scatter, along_tp, three_quarters},
                                 {backward, all_gather, along_tp, three_quarters},
                                 {backward, reduce_scatter, along_tp, three_quarters},
                                 {gradient, all_reduce, along_dp, mlp_gradients}});
static_assert(mlp_gathers_and_scatters<by_position> && mlp_gathers_and_scatters<by_feature>);

// Attention: queries, keys and values by one gather.
constexpr index_t attention_gradients = 4 * (4 * 512 * 512 / 4);
static_assert(makes<attention_step<whole>, grid>({{forward, all_reduce, along_tp, 2 * three_quarters},
                                                  {backward, all_reduce, along_tp, 2 * three_quarters},
                                                  {gradient, all_reduce, along_dp, attention_gradients}}));
template <class Edge>
constexpr bool attention_gathers_and_scatters =
    makes<attention_step<Edge>, grid>({{forward, all_gather, along_tp, three_quarters},
                                       {forward, reduce_scatter, along_tp, three_quarters},
                                       {backward, all_gather, along_tp, three_quarters},
                                       {backward, reduce_scatter, along_tp, three_quarters},
                                       {gradient, all_reduce, along_dp, attention_gradients}});
static_assert(attention_gathers_and_scatters<by_position> && attention_gathers_and_scatters<by_feature>);

// A Transformer layer: both of these. Where positions are cut, the gradients of the norms are sums along both axes.
constexpr index_t norms = 4 * 4 * 512;
static_assert(makes<transformer_step<whole>, grid>({{forward, all_reduce, along_tp, 2 * three_quarters},
                                                    {forward, all_reduce, along_tp, 2 * three_quarters},
                                                    {backward, all_reduce, along_tp, 2 * three_quarters},
                                                    {backward, all_reduce, along_tp, 2 * three_quarters},
                                                    {gradient, all_reduce, along_dp,
                                                     mlp_gradients + attention_gradients + norms}}));
static_assert(makes<transformer_step<by_position>, grid>({{forward, all_gather, along_tp, three_quarters},
                                                          {forward, reduce_scatter, along_tp, three_quarters},
                                                          {forward, all_gather, along_tp, three_quarters},
                                                          {forward, reduce_scatter, along_tp, three_quarters},
                                                          {backward, all_gather, along_tp, three_quarters},
                                                          {backward, reduce_scatter, along_tp, three_quarters},
                                                          {backward, all_gather, along_tp, three_quarters},
                                                          {backward, reduce_scatter, along_tp, three_quarters},
                                                          {gradient, all_reduce, along_dp,
                                                           mlp_gradients + attention_gradients},
                                                          {gradient, all_reduce, along_both, norms * 14 / 8}}));
// Features cut between layers: gathered before a norm (its backward then needs a whole sum), or normalised as they are.
static_assert(makes<transformer_step<by_feature, whole_along<tp>>, grid>(
    {{forward, all_gather, along_tp, three_quarters},
     {forward, reduce_scatter, along_tp, three_quarters},
     {forward, all_gather, along_tp, three_quarters},
     {forward, reduce_scatter, along_tp, three_quarters},
     {backward, all_gather, along_tp, three_quarters},
     {backward, all_reduce, along_tp, 2 * three_quarters},
     {backward, all_gather, along_tp, three_quarters},
     {backward, all_reduce, along_tp, 2 * three_quarters},
     {gradient, all_reduce, along_dp, mlp_gradients + attention_gradients + norms}}));
constexpr index_t of_rows = 4 * 128 * 6 / 4;
static_assert(makes<transformer_step<by_feature>, grid>({{forward, all_reduce, along_tp, 8 * of_rows},
                                                         {forward, all_gather, along_tp, three_quarters},
                                                         {forward, reduce_scatter, along_tp, three_quarters},
                                                         {forward, all_reduce, along_tp, 8 * of_rows},
                                                         {forward, all_gather, along_tp, three_quarters},
                                                         {forward, reduce_scatter, along_tp, three_quarters},
                                                         {backward, all_gather, along_tp, three_quarters},
                                                         {backward, reduce_scatter, along_tp, three_quarters},
                                                         {backward, all_reduce, along_tp, 8 * of_rows},
                                                         {backward, all_gather, along_tp, three_quarters},
                                                         {backward, reduce_scatter, along_tp, three_quarters},
                                                         {backward, all_reduce, along_tp, 8 * of_rows},
                                                         {gradient, all_reduce, along_dp,
                                                          mlp_gradients + attention_gradients + norms / 4}}));

// Matrices cut along dp too: half of each is gathered, half of its gradient scattered.
template <class Model>
constexpr bool gathers_and_scatters_matrices(int matrices, index_t elements) {
  const auto calls = fully_sharded_calls<Model, grid, dp>();
  index_t bytes[2] = {};
  for (auto const& call : calls) {
    const bool before = call.when == forward;
    if (call.kind != (before ? all_gather : reduce_scatter) || call.group != along_dp) return false;
    bytes[before ? 0 : 1] += 4 * call.template elements<grid>(1, {0, 0}) / 2;
  }
  return static_cast<int>(calls.size()) == 2 * matrices && bytes[0] == 2 * elements && bytes[1] == 2 * elements;
}
static_assert(gathers_and_scatters_matrices<mlp_step<whole>>(2, 2 * 512 * 2048 / 4));
static_assert(gathers_and_scatters_matrices<transformer_step<whole>>(4, (2 * 512 * 2048 + 4 * 512 * 512) / 4));

// An embedding by rows: the rows that a device lacks are zero in its sum.
static_assert(makes<embedding_step, grid>({{forward, all_reduce, along_tp, 2 * three_quarters},
                                           {gradient, all_reduce, along_dp, 4 * 8192 / 4 * 512}}));

// A 3 x 3 convolution, 64 to 64 channels of 32 images of 64 x 64: halos along height and width, one reduction of the
// weight's gradient, whatever is cut.
constexpr index_t image_row = 4 * 32 * 64 * 64;
constexpr index_t conv_weight = 4 * 64 * 64 * 9;
static_assert(makes<conv_step<shard<0, x>>, line>({{gradient, all_reduce, along_x, conv_weight * 14 / 8}}));
template <int Dim>
constexpr bool conv_by_rows = makes<conv_step<shard<Dim, x>>, line>({{forward, halo, along_x, 2 * image_row},
                                                                     {backward, halo, along_x, 2 * image_row},
                                                                     {gradient, all_reduce, along_x,
                                                                      conv_weight * 14 / 8}});
static_assert(conv_by_rows<2> && conv_by_rows<3>);
// A row of 16 + 2 columns and two columns of 32 rows, corners included.
constexpr index_t tile_halo = 4 * 32 * 64 * (18 + 2 * 32);
static_assert(makes<conv_step<cut<shard<2, dp>, shard<3, tp>>>, grid>({{forward, halo, along_both, tile_halo},
                                                                       {backward, halo, along_both, tile_halo},
                                                                       {gradient, all_reduce, along_both,
                                                                        conv_weight * 14 / 8}}));
static_assert(makes<conv_step<cut<shard<0, dp>, shard<2, tp>>>, grid>({{forward, halo, along_tp, image_row},
                                                                       {backward, halo, along_tp, image_row},
                                                                       {gradient, all_reduce, along_both,
                                                                        conv_weight * 14 / 8}}));
// With stride 2 the halo of the output's gradient is fetched, which has half as many rows and columns; but not where
// the input has fewer channels.
template <int Dim, int In>
using strided_step = split_layers::step<input<32, In, 64, 64>, shard<Dim, x>, conv2d<In, 64, window<3, 2, 1>, no_bias>>;
static_assert(makes<strided_step<3, 64>, line>({{forward, halo, along_x, image_row},
                                                {backward, halo, along_x, image_row / 2},
                                                {gradient, all_reduce, along_x, conv_weight * 14 / 8}}));
static_assert(makes<strided_step<2, 16>, line>({{forward, halo, along_x, image_row / 4},
                                                {backward, halo, along_x, image_row / 4},
                                                {gradient, all_reduce, along_x, conv_weight / 4 * 14 / 8}}));
// By channels, as matrices are.
template <class... Layers>
using on_images = parallel<chain<Layers...>, input<32, 64, 64, 64>>;
template <class... Options>
using conv = conv2d<64, 64, window<3, 1, 1>, no_bias, Options...>;
constexpr index_t activations = 4 * 32 * 64 * 64 * 64;
static_assert(makes<on_images<first_layer, conv<split_output<x>>>, line>({{backward, all_reduce, along_x,
                                                                           activations / 8 * 14}}));
static_assert(makes<on_images<shard<1, x>, first_layer, conv<split_input<x>>>, line>({{forward, all_reduce, along_x,
                                                                                       activations / 8 * 14}}));
static_assert(makes<on_images<shard<1, x>, first_layer, conv<split_input<x>>, shard<1, x>>, line>(
    {{forward, reduce_scatter, along_x, activations / 8 * 7}, {backward, all_gather, along_x, activations / 8 * 7}}));
static_assert(makes<on_images<shard<0, dp>, first_layer, conv<split_output<tp>>, relu, conv<split_input<tp>>>, grid>(
    {{forward, all_reduce, along_tp, activations / 2 / 4 * 6},
     {backward, all_reduce, along_tp, activations / 2 / 4 * 6},
     {gradient, all_reduce, along_dp, 2 * conv_weight / 4}}));
static_assert(makes<on_images<shard<1, x>, first_layer, conv<groups<8>, split_channels<x>>>, line>({}));

// Pooling by 3 x 3 windows of stride 2: one row, and back.
static_assert(makes<max_pool_step<shard<0, x>>, line>({}) && makes<max_pool_step<shard<1, x>>, line>({}));
static_assert(makes<max_pool_step<shard<2, x>>, line>({{forward, halo, along_x, image_row},
                                                       {backward, halo, along_x, image_row}}));

// Batch norm: two sums a channel in one message over all axes, and two back, which are the gradients of its parameters
// too.
template <class Edge>
constexpr bool norm_in_two_messages = makes<batch_norm_step<Edge>, line>(
    {{forward, all_reduce, along_x, 64 * 8 * 14 / 8}, {backward, all_reduce, along_x, 64 * 8 * 14 / 8}});
static_assert(norm_in_two_messages<shard<0, x>> && norm_in_two_messages<shard<2, x>> &&
              norm_in_two_messages<shard<3, x>>);
static_assert(makes<batch_norm_step<shard<1, x>>, line>({}));
static_assert(makes<batch_norm_step<cut<shard<0, dp>, shard<2, tp>>>, grid>(
    {{forward, all_reduce, along_both, 64 * 8 * 14 / 8}, {backward, all_reduce, along_both, 64 * 8 * 14 / 8}}));
static_assert(makes<batch_norm_step<cut<shard<0, dp>, shard<1, tp>>>, grid>(
    {{forward, all_reduce, along_dp, 16 * 8}, {backward, all_reduce, along_dp, 16 * 8}}));

// Layer norm of 1024 rows by features, and by rows.
static_assert(makes<layer_norm_step<shard<1, x>>, line>({{forward, all_reduce, along_x, 1024 * 8 * 14 / 8},
                                                         {backward, all_reduce, along_x, 1024 * 8 * 14 / 8}}));
static_assert(makes<layer_norm_step<shard<0, x>>, line>({{gradient, all_reduce, along_x, 2 * 1024 * 4 * 14 / 8}}));
// As the first layer of a model they send nothing backward: nobody needs the gradient of the input.
template <class Layer>
using norm_alone = parallel<chain<shard<1, x>, Layer, shard<1, x>>, input<1024, 1024>, fuse::all>;
static_assert(makes<norm_alone<layer_norm<1024>>, line>({{forward, all_reduce, along_x, 1024 * 8 * 14 / 8}}));
static_assert(makes<norm_alone<rms_norm<1024>>, line>({{forward, all_reduce, along_x, 1024 * 4 * 14 / 8}}));
static_assert(
    makes<parallel<chain<shard<2, x>, group_norm<8, 64>, shard<2, x>>, input<32, 64, 64, 64>, fuse::all>, line>(
        {{forward, all_reduce, along_x, 32 * 8 * 8 * 14 / 8}, {gradient, all_reduce, along_x, 2 * 64 * 4 * 14 / 8}}));

// ResNet-50, data parallel: two messages for each of 53 norms, one for all that is left of 25,557,032 gradients.
constexpr collective_list<resnet50_step<shard<0, x>>, line> resnet50_list;
static_assert(resnet50_list.count(forward) == 53);
static_assert(resnet50_list.count(backward) == 53 && resnet50_list.count(gradient) == 1);
static_assert(received(resnet50_list, 106) == (index_t{25557032} - 2 * 26560) * 4 * 14 / 8);

}  // namespace
