// expect: tessera: the rules of this layer give an operand another number of letters than it has dimensions; write one letter for each
#include "../world.hpp"

#include <tessera/layer/bind.hpp>

struct scaled {
  using words = split_words<>;
  struct weight : parameter<ones, 8> {
    static constexpr std::string_view name = "weight";
  };
  struct count : state<zeros, 8> {
    static constexpr std::string_view name = "count";
  };
  using parameters = parameter_list<weight>;
  template <auto Extents>
  static constexpr index_rules rules() {
    return {"nchw,c->nchw", {{'n', "batch"}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }
};

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<scaled, world, input>;
static_assert(bound::output::rank >= 0);
