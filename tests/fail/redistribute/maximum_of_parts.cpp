// expect: tessera: a maximum is taken of whole sums, never of parts of them; resolve the partial sum too
#include "../world.hpp"

#include <tessera/redistribute/to.hpp>

auto largest(tensor_of<2, layout<partial<dp>, partial<tp, reduction::maximum>>> const& x) { return x | to<partial<dp>>; }
