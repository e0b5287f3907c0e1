// expect: tessera: a memory limit needs to know what each layer keeps, and this one does not tell; give it a member `keeps` or `kept`, or search without a limit
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>

struct twice {
  using words = split_words<>;
  using parameters = parameter_list<>;
  template <auto Extents>
  static constexpr index_rules rules() {
    return elementwise_rules(Extents.rank, 1);
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }
  template <class X>
  struct saved {
    X x;
  };
};
using found = auto_parallel_search<chain<linear<8, 8>, twice, linear<8, 4>>, input<16, 8>, world, machine::shared_memory,
                                   memory_limit<1'000'000>>;
static_assert(found::time > 0);
