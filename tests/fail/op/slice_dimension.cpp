// expect: tessera: this operator works along a dimension that the tensor does not have; name one from 0 to its rank - 1, or from the end as -1
#include "../world.hpp"

#include <tessera/op/slice.hpp>

auto f(tensor_of<2> const& x) { return op::slice<2>(x, 0, 1); }
