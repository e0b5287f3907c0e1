// expect: tessera: tensors are not compared element by element: a partial sum or a shard is only a part of the values; compare the blocks that tessera::gather gives
// C14
#include "../world.hpp"

#include <tessera/op/elementwise.hpp>

bool f(tensor_of<2, partial<tp>> const& a, tensor_of<2, partial<tp>> const& b) { return a == b; }
