// expect: tessera: the gradient has another layout than the tensor it is written into; compare the two types
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

void f(tensor_of<2, shard<0, dp>> const& dy, tensor_of<1>& db) { op::bias_backward(dy, db); }
