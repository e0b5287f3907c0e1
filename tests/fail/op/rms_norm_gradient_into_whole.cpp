// expect: tessera: the gradient has another layout than the tensor it is written into; compare the two types named here
#include "../world.hpp"

#include <tessera/op/rms_norm.hpp>

// The rows are cut, so the gradient of the weight is partial.
auto f(tensor_of<2, row<dp>> const& x, row_statistics<host_memory> const& s, tensor_of<1> const& w, tensor_of<1>& dw) {
  return op::rms_norm_backward(x, x, s, w, dw);
}
