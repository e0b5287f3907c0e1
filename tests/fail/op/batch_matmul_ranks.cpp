// expect: tessera: batch_matmul takes matrices with one or two leading batch dimensions, the same number for both operands, or one operand without any that is used for all; reshape them first
#include "../world.hpp"

#include <tessera/op/batch_matmul.hpp>

auto f(tensor_of<4> const& a, tensor_of<3> const& b) { return op::batch_matmul(a, b); }
