// expect: tessera: the rules of this layer have another number of operands than the input and its parameters; write one for each
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
  using parameters = parameter_list<weight, count>;
  template <auto Extents>
  static constexpr index_rules rules() {
    return {"nc,c->nc", {{'n', "batch"}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }
};

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<scaled, world, input>;
static_assert(bound::output::rank >= 0);
