// expect: tessera: the operands of this operator are cut differently along a mesh axis: bring one to the layout of the other with x | tessera::to<...>
#include "../world.hpp"

#include <tessera/op/layer_norm.hpp>

auto f(tensor_of<2, column<tp>> const& x, tensor_of<1> const& w) { return op::layer_norm(x, w, w); }
