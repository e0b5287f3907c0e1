// expect: tessera: the extents that this route is made for have another rank than the tensor; name one extent for each dimension
#include "../world.hpp"

#include <tessera/redistribute/to.hpp>

struct far_apart {
  template <class Axis>
  static constexpr link_cost along{1e-3, 1e-9};
};
auto f(tensor_of<2, row<tp>> const& x) { return x | to<column<tp>, far_apart, shape<1>{{8}}>; }
