// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/attention.hpp>

auto f(tensor_of<4, partial<tp>> const& q, tensor_of<4> const& k) {
  return op::scaled_dot_product_attention(q, k, k);
}
