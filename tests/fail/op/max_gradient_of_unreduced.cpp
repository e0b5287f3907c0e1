// expect: tessera: the gradient of a maximum is at the places that hold the maximum over all ranks: reduce what max returned first, as in y | tessera::to<...>, and pass it
#include "../world.hpp"

#include <tessera/op/reduce.hpp>

auto f(tensor_of<2, row<tp>> const& x, tensor_of<1, partial<tp, reduction::maximum>> const& y, tensor_of<1> const& dy) {
  return op::max_backward<0>(x, y, dy);
}
