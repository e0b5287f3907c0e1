// expect: tessera: a route for a machine is made for one known extent for each dimension of the tensor, none of them dynamic; name them, as in to<Layout, Machine, shape<2>{{64, 64}}>
#include "../world.hpp"

#include <tessera/redistribute/to.hpp>

struct far_apart {
  template <class Axis>
  static constexpr link_cost along{1e-3, 1e-9};
};
auto f(tensor_of<2, row<tp>> const& x) { return x | to<column<tp>, far_apart, shape<2>{{dynamic, 8}}>; }
