// expect: tessera: cross_entropy takes logits [rows, classes]; flatten others first: flatten<0, 1> as the last layer makes rows of [N, S, classes]
#include "../world.hpp"

#include <tessera/op/cross_entropy.hpp>

double f(op::cross_entropy<tensor_of<4>> const& loss) { return loss.loss(); }
