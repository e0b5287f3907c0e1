// expect: tessera: the product of two partial sums is not a partial sum of the product: reduce one of them first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/matmul.hpp>

auto f(tensor_of<2, partial<tp>> const& a, tensor_of<2, partial<tp>> const& b) { return op::matmul(a, b); }
