// expect: tessera: fuse::automatic_on needs a machine that says how fast it computes
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/parallel.hpp>

struct links_only {
  template <class Axis>
  static constexpr link_cost along{};
};
static_assert(
    plan<parallel<linear<8, 4>, data_parallel<dp>, fuse::automatic_on<links_only>>, world>::buckets(4).size() == 2);
