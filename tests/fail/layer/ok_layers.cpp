#include "../world.hpp"

#include <tessera/backend/eigen.hpp>
#include <tessera/layer/softmax.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/plan/parallel.hpp>

// Splits, chains and residuals that are right, beside the programs of this folder that must not compile.
template <class Model>
using rank_of = std::integral_constant<int, plan<Model, world>::output::rank>;

static_assert(rank_of<parallel<chain<relu, linear<8, 4>>, tessera::input<dynamic, 8>>>::value == 2);
static_assert(rank_of<chain<linear<8, 16, split_output<tp>>, relu, linear<16, 4, split_input<tp>>>>::value == 2);
static_assert(rank_of<chain<linear<8, 16, split_output<tp>, no_bias>, softmax<>>>::value == 2);
static_assert(rank_of<chain<conv2d<8, 8, window<3>, groups<8>, split_channels<tp>>, batch_norm2d<8>>>::value == 4);
static_assert(rank_of<chain<conv2d<8, 8, window<3>, groups<8>, split_channels<dp, tp>>, shard<0, dp, tp>>>::value == 4);
static_assert(rank_of<residual<conv2d<3, 8, window<3, 2, 1>>, conv2d<3, 8, window<1, 2>>>>::value == 4);
static_assert(rank_of<parallel<model::resnet_small<10, tp>, data_parallel<dp>, fuse::at<8, 16>>>::value == 2);

using bound = bind<linear<8, 4, split_input<tp>>, world, flow<shape<2>{{dynamic, 8}}, placements_of<world, row<dp>>>>;
using real = unbuilt_context<world, eigen>;
using node = node_of<bound, float, real>;
struct ignore {
  void operator()(int, int) const {}
};
auto forward(node& n, sharded<float, 2, row<dp>, real> const& x) { return n.forward(x, true); }
auto backward(node& n, sharded<float, 2, row<dp>, real> const& dy, ignore& ready) {
  return n.backward<true>(dy, ready);
}
