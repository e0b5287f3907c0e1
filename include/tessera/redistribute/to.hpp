#pragma once

#include <tessera/redistribute/execute.hpp>

namespace tessera {

/// The same tensor in another layout: carries out the route between the two, which is found while compiling.
///
/// Collectives: those of `route_between`, over the axes it names. A change to the same layout shares the block. A
/// partial value that is moved in and shared with nobody is reduced in place.
template <layout_word Layout, sharded_tensor X>
auto redistribute(X x) {
  using mesh = typename X::mesh;
  constexpr auto target = placements_of<mesh, Layout>;
  using result = relaid<X, X::rank, target>;
  if constexpr (std::is_same_v<result, X>) {
    return x;
  } else {
    static constexpr auto route = route_between<mesh, X::placements, target>;
    auto local = std::move(x.local());
    for (auto const& s : route)
      local = detail::execute_step<typename X::value_type>(x.where(), s, x.extents(), std::move(local));
    return result(x.where(), x.extents(), std::move(local));
  }
}

/// `x | to<shard<0, dp>>` is `redistribute<shard<0, dp>>(x)`.
template <layout_word Layout>
struct to_layout {
  template <sharded_tensor X>
  friend auto operator|(X x, to_layout) {
    return redistribute<Layout>(std::move(x));
  }
};
template <layout_word Layout>
inline constexpr to_layout<Layout> to{};

/// The whole tensor on every rank, as a plain tensor (for tests, printing and checkpoints).
template <sharded_tensor X>
auto gather(X const& x) {
  return redistribute<replicated>(x).local();
}

}  // namespace tessera
