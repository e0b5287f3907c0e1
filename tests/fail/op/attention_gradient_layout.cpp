// expect: tessera: the gradient of attention is not laid out as its result; bring it there with x | tessera::to<...>
#include "../world.hpp"

#include <tessera/op/attention.hpp>

auto f(tensor_of<5, shard<1, tp>> const& qkv, tensor_of<5> const& dy) {
  return op::scaled_dot_product_attention_backward(qkv, op::scaled_dot_product_attention(qkv), dy);
}
