// expect: tessera: cross_entropy takes logits [rows, classes]; flatten other inputs first
#include "../world.hpp"

#include <tessera/op/cross_entropy.hpp>

double f(op::cross_entropy<tensor_of<4>> const& loss) { return loss.loss(); }
