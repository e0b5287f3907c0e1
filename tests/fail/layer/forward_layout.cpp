// expect: tessera: forward of this layer returns a tensor in another layout than its rules say; compare the two types
#include "../world.hpp"

#include <tessera/layer/node.hpp>

/// A layer whose forward gathers.
struct careless {
  using words = split_words<>;
  using parameters = parameter_list<>;
  template <auto Extents>
  static constexpr index_rules rules() {
    return elementwise_rules(Extents.rank, 1);
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved&, X const& x) {
    return redistribute<replicated>(x);
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const&, Dy const& dy, Gradients&) {
    return dy;
  }
};

using bound = bind<careless, world, flow<shape<2>{{dynamic, 8}}, placements_of<world, shard<1, tp>>>>;
using node = node_of<bound, float, here>;
using tensor_type = tensor_of<2, shard<1, tp>>;
auto f(node& n, tensor_type const& x) { return n.forward(x, true); }
