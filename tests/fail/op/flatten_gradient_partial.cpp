// expect: tessera: flatten needs the gradient partial along the axes that its input
#include "../world.hpp"

#include <tessera/op/flatten.hpp>

auto f(tensor_of<2, partial<tp>> const& dy) { return op::flatten_backward<tensor_of<4>>(dy, {{2, 3, 4, 4}}); }
