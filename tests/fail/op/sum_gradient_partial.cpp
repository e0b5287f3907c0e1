// expect: tessera: the gradient of a sum is a replicated scalar; reduce it first
#include "../world.hpp"

#include <tessera/op/reduce.hpp>

auto f(tensor_of<2> const& x, tensor_of<0, partial<tp>> const& dy) { return op::reduce_sum_backward(x, dy); }
