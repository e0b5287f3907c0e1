// expect: tessera: a dimension of the mask of attention is whole, or cut as that of the queries is, and all keys are together; redistribute the mask first
#include "../world.hpp"

#include <tessera/op/attention.hpp>

auto f(tensor_of<4> const& x, tensor_of<2, shard<1, tp>> const& mask) {
  return op::scaled_dot_product_attention(x, x, x, mask);
}
