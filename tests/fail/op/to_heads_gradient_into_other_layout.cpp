// expect: tessera: the gradient has another layout than the tensor it is written into
#include "../world.hpp"

#include <tessera/op/heads.hpp>

void f(tensor_of<5, row<dp>> const& dy, tensor_of<3, row<dp>> const& x, tensor_of<3>& dw) {
  op::to_heads_backward_weight(dy, x, dw);
}
