// expect: tessera: explicit_loss takes logits [rows, classes]; flatten others first: flatten<0, 1> as the last layer makes rows of [N, S, classes]
#include "../world.hpp"

#include <tessera/op/explicit_loss.hpp>

double f(op::explicit_loss<tensor_of<3>> const& loss) { return loss.loss(); }
