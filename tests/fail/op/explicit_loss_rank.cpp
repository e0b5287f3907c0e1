// expect: tessera: explicit_loss takes logits [rows, classes]; flatten other inputs first
#include "../world.hpp"

#include <tessera/op/explicit_loss.hpp>

double f(op::explicit_loss<tensor_of<3>> const& loss) { return loss.loss(); }
