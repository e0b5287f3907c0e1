// expect: tessera: the groups of reshape have another number of dimensions than the tensor and the extents: let regroup<In, Out> and keep_dims<Count> add up to both
#include "../world.hpp"

#include <tessera/op/reshape.hpp>

auto f(tensor_of<3> const& x) { return op::reshape<regroup<2, 1>>(x, shape<2>{{dynamic, dynamic}}); }
