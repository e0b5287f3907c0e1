// expect: tessera: regroup takes numbers of dimensions, 0 or more; correct them
#include "../world.hpp"

#include <tessera/op/reshape.hpp>

auto f(tensor_of<3> const& x) { return op::reshape<regroup<4, 2>, regroup<-1, 0>>(x, shape<2>{{2, dynamic}}); }
