#include "../world.hpp"

#include <tessera/backend/eigen.hpp>
#include <tessera/layer/dropout.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/group_norm.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/rms_norm.hpp>
#include <tessera/plan/parallel.hpp>

// Splits that are right, beside the programs of this folder that must not compile.
template <class Model>
using rank_of = std::integral_constant<int, plan<Model, world>::output::rank>;

static_assert(rank_of<chain<embedding<8, 4, split_vocabulary<tp>>, dropout<keep_of<std::ratio<9, 10>>>,
                            layer_norm<4, split_features<tp>>, rms_norm<4, split_sequence<dp>>>>::value == 3);
static_assert(rank_of<chain<group_norm<4, 8, split_channels<tp>>, group_norm<8, 8, split_height<dp>>,
                            layer_norm_over<last<8, 9, 9>, split_channels<tp>>>>::value == 4);

using bound = bind<embedding<8, 4, padding_of<7>>, world, flow<shape<1>{{dynamic}}, placements_of<world, row<dp>>>>;
using real = unbuilt_context<world, eigen>;
using node = node_of<bound, float, real>;
struct ignore {
  void operator()(int, int) const {}
};
auto forward(node& n, sharded<std::int64_t, 1, row<dp>, real> const& x) { return n.forward(x, true); }
auto backward(node& n, sharded<float, 2, row<dp>, real> const& dy, ignore& ready) {
  return n.backward<false>(dy, ready);
}
