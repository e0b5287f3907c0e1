// expect: tessera: a gradient is cut, replicated or a partial sum; reduce the maximum first
#include "../world.hpp"

#include <tessera/redistribute/halo.hpp>

using maximum = tensor_of<4, layout<shard<2, dp>, partial<tp, reduction::maximum>>>;
auto f(here& context, maximum::local_type const& padded) {
  return exchange_halo_backward<maximum, 2>(context, padded, {{1, 1, 8, 8}}, {{{3, 1, 1, 1, 1}}});
}
