// expect: tessera: the operands of attention have different ranks; reshape them to [B, H, S, D]
#include "../world.hpp"

#include <tessera/op/attention.hpp>

auto f(tensor_of<4> const& q, tensor_of<5> const& k) { return op::scaled_dot_product_attention(q, k, k); }
