// expect: tessera: the product of two partial sums is not a partial sum of the product: reduce one of them first, as in x | tessera::to<tessera::replicated>
// C15: 1 * 1 + 1 * 1 is 2, and (1 + 1) * (1 + 1) is 4.
#include "../world.hpp"

#include <tessera/op/elementwise.hpp>

auto f(tensor_of<2, partial<tp>> const& a, tensor_of<2, partial<tp>> const& b) { return a * b; }
