// expect: tessera: reshape keeps the cut of a dimension only where it is the first of its group: gather the dimension named here first, with x | tessera::to<...>, or regroup so that it comes first
// expect: reshape_of_cut_dimension<2, false>
#include "../world.hpp"

#include <tessera/op/reshape.hpp>

auto f(tensor_of<3, shard<2, tp>> const& x) {
  return op::reshape<keep_dims<1>, regroup<2, 1>>(x, shape<2>{{dynamic, dynamic}});
}
