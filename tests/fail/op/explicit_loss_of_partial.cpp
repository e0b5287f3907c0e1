// expect: tessera: this operator is not linear, so it cannot take a partial value: reduce it first, as in x | tessera::to<tessera::replicated>
#include "../world.hpp"

#include <tessera/op/explicit_loss.hpp>

using logits = tensor_of<2, partial<tp>>;
double f(logits const& x, logits const& targets) { return op::explicit_loss<logits>(x, targets, -1).loss(); }
