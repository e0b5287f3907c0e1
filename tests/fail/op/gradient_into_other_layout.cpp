// expect: tessera: the gradient has another layout than the tensor it is written into; compare the two types
// The rows are cut, so the gradient is partial.
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

void f(tensor_of<2, shard<0, dp>> const& dy, tensor_of<2, shard<0, dp>> const& x, tensor_of<2>& dw) {
  op::linear_product_backward_weight(dy, x, dw);
}
