// expect: tessera: this machine does not say what the links along an axis of the mesh cost; give it a membe
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

struct without_links {
  static constexpr double operations_per_second = 1e9;
  static constexpr double bytes_per_second = 1e9;
};
static_assert(
    plan<parallel<linear<8, 4>, data_parallel<dp>, fuse::automatic_on<without_links>>, world>::buckets(4).size() == 2);
