// All changes between the 40 layouts of a tensor of four dimensions on two mesh axes, each route found while compiling.

#include <tessera/redistribute/route.hpp>

#include <utility>

namespace {

namespace ts = tessera;

struct x : ts::axis<2> {};
struct y : ts::axis<4> {};
using world = ts::mesh<x, y>;

struct table {
  ts::placements<2> at[40] = {};
  int count = 0;
};

constexpr table all = [] {
  table t;
  const ts::placement ways[] = {ts::replicated_placement(), ts::partial_placement(), ts::shard_placement(0),
                                ts::shard_placement(1),     ts::shard_placement(2),  ts::shard_placement(3)};
  for (auto const& a : ways)
    for (auto const& b : ways) {
      ts::placements<2> layout;
      layout[0] = a;
      layout[1] = b;
      t.at[t.count++] = layout.normalized();
      if (!a.is_shard() || !b.is_shard() || a.dim != b.dim) continue;
      layout[0].order = 1;
      t.at[t.count++] = layout;
    }
  return t;
}();
static_assert(all.count == 40);

template <int From, int To>
constexpr int steps_between() {
  if constexpr (ts::can_reach(all.at[From], all.at[To]))
    return ts::route_between<world, all.at[From], all.at[To], 4>.count;
  else
    return 0;
}
template <int From, int... To>
constexpr int steps_from(std::integer_sequence<int, To...>) {
  return (steps_between<From, To>() + ... + 0);
}
template <int... From>
constexpr int steps(std::integer_sequence<int, From...> layouts) {
  return (steps_from<From>(layouts) + ... + 0);
}

static_assert(steps(std::make_integer_sequence<int, 40>{}) > 1000);

}  // namespace
