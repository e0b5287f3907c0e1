// expect: tessera: indices have no gradient; put the embedding before everything that learns
#include "../world.hpp"

#include <tessera/backend/eigen.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>

using real = unbuilt_context<world, eigen>;
using bound =
    bind<chain<linear<4, 4>, embedding<8, 4>>, world, flow<shape<2>{{dynamic, 4}}, placements_of<world, replicated>>>;
struct ignore {
  void operator()(int, int) const {}
};
auto backward(node_of<bound, float, real>& n, sharded<float, 3, replicated, real> const& dy, ignore& ready) {
  return n.backward<false>(dy, ready);
}
