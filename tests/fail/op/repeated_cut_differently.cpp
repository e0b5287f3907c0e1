// expect: tessera: the operands of this operator are cut differently along a mesh axis: bring one to the layout of the other with x | tessera::to<...>
#include "../world.hpp"

#include <tessera/op/broadcast.hpp>

auto f(tensor_of<2, column<tp>> const& a, tensor_of<1> const& b) { return a + along<1>(b); }
