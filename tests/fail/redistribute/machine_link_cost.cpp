// expect: tessera: this machine has a link whose latency or seconds_per_byte is negative, infinite or no number; give both in seconds, 0 or more
#include "../world.hpp"

#include <tessera/redistribute/to.hpp>

#include <limits>

struct endless {
  template <class Axis>
  static constexpr link_cost along{1e-6, std::numeric_limits<double>::infinity()};
};
auto f(tensor_of<2, row<tp>> const& x) { return x | to<column<tp>, endless, shape<2>{{8, 8}}>; }
