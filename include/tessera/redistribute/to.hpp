#pragma once

#include <tessera/redistribute/execute.hpp>
#include <tessera/redistribute/search.hpp>

namespace tessera {

/// The machine that routes are made for if none is named: large tensors, so that only what is received counts.
struct large_tensors {};

namespace detail {
template <int Rank, int Named>
constexpr bool known_extents(shape<Named> const& extents) {
  for (int d = 0; d < Named; ++d)
    if (extents[d] < 0) return false;
  return Named == Rank;
}

template <class X, auto Target, class Machine, auto Extents>
constexpr auto route_for() {
  using mesh = typename X::mesh;
  if constexpr (std::is_same_v<Machine, large_tensors>) {
    return route_between<mesh, X::placements, Target, X::rank>;
  } else {
    static_assert(known_extents<X::rank>(Extents),
                  "tessera: a route for a machine is made for one known extent for each dimension of the tensor, none "
                  "of them dynamic; name them, as in to<Layout, Machine, shape<2>{{64, 64}}>");
    if constexpr (check_reach<X::placements, Target>())
      return cheapest_route(mesh::value, links_of<mesh, Machine>, Extents, sizeof(typename X::value_type),
                            X::placements, Target);
  }
}
}  // namespace detail

/// The same tensor in another layout: carries out the route between the two, which is found while compiling.
///
/// Collectives: those of `route_between`, over the axes it names. With a machine, which says what the links along each
/// axis cost (`machine_along` in redistribute/cost.hpp), they are those of `cheapest_route` for tensors of `Extents`; a
/// tensor of other extents is brought to the same layout by the same steps. A change to the
/// same layout shares the block. A partial value that is moved in and shared with nobody is reduced in place.
template <layout_word Layout, class Machine = large_tensors, auto Extents = shape<0>{}, sharded_tensor X>
auto redistribute(X x) {
  constexpr auto target = placements_of<typename X::mesh, Layout>;
  using result = relaid<X, X::rank, target>;
  if constexpr (std::is_same_v<result, X>) {
    return x;
  } else {
    static constexpr auto route = detail::route_for<X, target, Machine, Extents>();
    auto local = std::move(x.local());
    for (auto const& s : route)
      local = detail::execute_step<typename X::value_type>(x.where(), s, x.extents(), std::move(local));
    return result(x.where(), x.extents(), std::move(local));
  }
}

/// `x | to<shard<0, dp>>` is `redistribute<shard<0, dp>>(x)`; `x | to<shard<0, dp>, cluster, shape<2>{{64, 64}}>` takes
/// the steps that are cheapest on the machine `cluster` for tensors of 64 x 64.
template <layout_word Layout, class Machine, auto Extents>
struct to_layout {
  template <sharded_tensor X>
  friend auto operator|(X x, to_layout) {
    return redistribute<Layout, Machine, Extents>(std::move(x));
  }
};
template <layout_word Layout, class Machine = large_tensors, auto Extents = shape<0>{}>
inline constexpr to_layout<Layout, Machine, Extents> to{};

/// The whole tensor on every rank, as a plain tensor (for tests, printing and checkpoints).
template <sharded_tensor X>
auto gather(X const& x) {
  return redistribute<replicated>(x).local();
}

}  // namespace tessera
