// expect: tessera: from_heads takes heads [B, S, 1, H, D] and a weight [F, H, D]; reshape them first
#include "../world.hpp"

#include <tessera/op/heads.hpp>

auto f(tensor_of<5> const& x, tensor_of<2> const& w) { return op::from_heads(x, w); }
