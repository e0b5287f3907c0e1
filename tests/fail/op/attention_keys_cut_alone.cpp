// expect: tessera: the operands of this operator are cut differently along a mesh axis: bring one to the layout of the other with x | tessera::to<...>
#include "../world.hpp"

#include <tessera/op/attention.hpp>

auto f(tensor_of<4> const& q, tensor_of<4, shard<2, tp>> const& k) {
  return op::scaled_dot_product_attention(q, k, k);
}
