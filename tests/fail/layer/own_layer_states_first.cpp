// expect: tessera: list the parameters of a layer before its states
#include "../world.hpp"

#include <tessera/layer/node.hpp>

struct scaled {
  using words = split_words<>;
  struct weight : parameter<ones, 8> {
    static constexpr std::string_view name = "weight";
  };
  struct count : state<zeros, 8> {
    static constexpr std::string_view name = "count";
  };
  using parameters = parameter_list<count, weight>;
  template <auto Extents>
  static constexpr index_rules rules() {
    return {"nc,c,c->nc", {{'n', "batch"}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }
};

using input = flow<shape<2>{{dynamic, 8}}, placements_of<world, replicated>>;
using bound = bind<scaled, world, input>;
node_of<bound, float, here> node;
