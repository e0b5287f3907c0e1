// expect: tessera: the product of two partial sums is not a partial sum of the product: reduce one of them first
#include "../world.hpp"

#include <tessera/op/batch_matmul.hpp>

auto f(tensor_of<3, partial<tp>> const& a, tensor_of<3, partial<tp>> const& b) { return op::batch_matmul(a, b); }
