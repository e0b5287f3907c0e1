// expect: tessera: this pooling needs the gradient partial along the same axes, and with batch and channels cut, like its input
#include "../world.hpp"

#include <tessera/op/pool2d.hpp>

auto f(tensor_of<4, shard<1, tp>> const& dy) { return op::global_avg_pool_backward<tensor_of<4>>(dy, {{2, 8, 4, 4}}); }
