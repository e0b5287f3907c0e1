// expect: tessera: attention is not linear in its mask, so it cannot take a partial one: reduce it first, as in mask | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/attention.hpp>

auto f(tensor_of<4> const& x, tensor_of<2, partial<tp>> const& mask) {
  return op::scaled_dot_product_attention(x, x, x, mask);
}
