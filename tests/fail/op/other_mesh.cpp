// expect: tessera: the operands of this operator are on different meshes or hold elements of different types; make them on one context with one element type
#include "../world.hpp"

#include <tessera/op/elementwise.hpp>

using other = unbuilt_context<mesh<tp, dp>>;
auto f(tensor_of<2, shard<0, dp>> const& a, sharded<float, 2, shard<0, tp>, other> const& b) { return a + b; }
