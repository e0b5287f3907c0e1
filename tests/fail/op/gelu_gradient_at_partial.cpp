// expect: tessera: a gradient is taken where the function was, at a value that is not partial; pass what forward was given or returned
#include "../world.hpp"

#include <tessera/op/activation.hpp>

auto f(tensor_of<2, partial<tp>> const& x, tensor_of<2> const& dy) { return op::gelu_backward(x, dy); }
