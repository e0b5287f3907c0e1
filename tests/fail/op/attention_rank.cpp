// expect: tessera: attention takes tensors [B, H, S, D], or [B, S, 1, H, D] as to_heads gives them; reshape the operands first
#include "../world.hpp"

#include <tessera/op/attention.hpp>

auto f(tensor_of<3> const& x) { return op::scaled_dot_product_attention(x, x, x); }
