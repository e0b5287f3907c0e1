// expect: tessera: to_heads takes an input [B, S, F] and a weight [P, H, D * F]; reshape them first
#include "../world.hpp"

#include <tessera/op/heads.hpp>

auto f(tensor_of<2> const& x, tensor_of<3> const& w) { return op::to_heads(x, w); }
