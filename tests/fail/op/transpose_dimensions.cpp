// expect: tessera: transpose names each dimension of its tensor once; for the transpose of a matrix write transpose<1, 0>
#include "../world.hpp"

#include <tessera/op/transpose.hpp>

auto f(tensor_of<3> const& x) { return op::transpose<0, 1, 1>(x); }
