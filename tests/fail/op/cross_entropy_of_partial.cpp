// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/cross_entropy.hpp>

double f(op::cross_entropy<tensor_of<2, partial<tp>>> const& loss) { return loss.loss(); }
