// expect: tessera: the gradient has another layout than the tensor it is written into; compare the two types
#include "../world.hpp"

#include <tessera/op/conv2d.hpp>

void f(tensor_of<4, shard<0, dp>> const& dy, tensor_of<4, shard<0, dp>> const& x, tensor_of<4>& dw) {
  op::conv2d_backward_weight(dy, x, dw, {});
}
