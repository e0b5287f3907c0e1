// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first
#include "../world.hpp"

#include <tessera/op/embedding.hpp>

// The gradient of a partial sum is whole on every rank.
auto f(sharded<std::int64_t, 1, replicated, here> const& i, tensor_of<2, partial<tp>> const& dy,
       tensor_of<2, row<tp>>& dw) {
  return op::embedding_backward(i, dy, dw);
}
