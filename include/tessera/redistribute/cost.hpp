#pragma once

#include <tessera/redistribute/step.hpp>

#include <concepts>
#include <limits>
#include <type_traits>

namespace tessera {

/// What messages cost along a mesh axis, after R. Hockney (Parallel Computing 20, 1994): seconds for each message, and
/// seconds for each byte.
struct link_cost {
  double latency = 0;
  double seconds_per_byte = 0;
};

/// The links of a mesh, one for each axis.
template <int Axes>
struct mesh_links {
  link_cost along[Axes > 0 ? Axes : 1] = {};

  /// Messages between devices that differ along several axes take the slowest of their links.
  constexpr link_cost of(axis_set axes) const {
    link_cost slowest;
    for (int a = 0; a < Axes; ++a) {
      if ((axes >> a & 1) == 0) continue;
      if (along[a].latency > slowest.latency) slowest.latency = along[a].latency;
      if (along[a].seconds_per_byte > slowest.seconds_per_byte) slowest.seconds_per_byte = along[a].seconds_per_byte;
    }
    return slowest;
  }
};

/// The same link along every axis.
template <int Axes>
constexpr mesh_links<Axes> uniform_links(link_cost every) {
  mesh_links<Axes> n;
  for (int a = 0; a < Axes; ++a) n.along[a] = every;
  return n;
}

/// Whether a link has costs of 0 or more that are finite.
constexpr bool is_valid(link_cost const& link) {
  constexpr double most = std::numeric_limits<double>::max();
  return link.latency >= 0 && link.latency <= most && link.seconds_per_byte >= 0 && link.seconds_per_byte <= most;
}

/// Satisfied by types that say what the links along an axis cost: `Machine::along<Axis>` is a `link_cost`.
template <class Machine, class Axis>
concept machine_along = requires {
  { Machine::template along<Axis> } -> std::convertible_to<link_cost>;
};

/// Satisfied by types that know the links of any mesh from its sizes, as those with a `machine_description` do.
template <class Machine, class Mesh>
concept machine_of_levels = requires {
  { Machine::about.links(Mesh::value) } -> std::same_as<mesh_links<Mesh::axes>>;
};

namespace detail {
template <class Machine, class... Axes>
constexpr mesh_links<sizeof...(Axes)> links_along(std::type_identity<mesh<Axes...>>) {
  static_assert((machine_along<Machine, Axes> && ...),
                "tessera: this machine does not say what the links along an axis of the mesh cost; give it a member "
                "template <class Axis> static constexpr tessera::link_cost along");
  static_assert(
      (is_valid(link_cost(Machine::template along<Axes>)) && ...),
      "tessera: this machine has a link whose latency or seconds_per_byte is negative, infinite or no number; "
      "give both in seconds, 0 or more");
  return {{link_cost(Machine::template along<Axes>)...}};
}
}  // namespace detail

/// The links of a mesh on a machine.
template <device_mesh Mesh, class Machine>
inline constexpr mesh_links<Mesh::axes> links_of = [] {
  if constexpr (machine_of_levels<Machine, Mesh>)
    return Machine::about.links(Mesh::value);
  else
    return detail::links_along<Machine>(std::type_identity<Mesh>{});
}();

/// What a step costs the device that has most to do.
struct step_cost {
  index_t received = 0;  ///< elements
  int messages = 0;      ///< received one after the other
  double seconds = 0;
};

namespace detail {

/// Rounds in which one device's news reach all of a group when everybody who knows tells somebody each round.
constexpr int doubling_rounds(int devices) {
  int rounds = 0;
  for (int reached = 1; reached < devices; reached *= 2) ++rounds;
  return rounds;
}

/// What one device receives in an exchange.
template <int Axes, int Rank>
constexpr step_cost exchange_cost(mesh_sizes<Axes> const& mesh, mesh_links<Axes> const& net, shape<Rank> const& extents,
                                  index_t element_bytes, step<Axes> const& s,
                                  typename mesh_sizes<Axes>::coordinates_type const& at) {
  const auto wanted = local_box(mesh, s.to, extents, at);
  step_cost cost;
  const int members = mesh.group_size(s.group);
  for (int m = 0; m < members; ++m) {
    const auto source = mesh.group_member(s.group, at, m);
    unsigned apart = 0;
    for (int a = 0; a < Axes; ++a)
      if (source[static_cast<std::size_t>(a)] != at[static_cast<std::size_t>(a)]) apart |= 1u << a;
    if (apart == 0) continue;
    const index_t piece = intersect(local_box(mesh, s.from, extents, source), wanted).size();
    if (piece == 0) continue;
    const link_cost by = net.of(static_cast<axis_set>(apart));
    cost.received += piece;
    cost.messages += 1;
    cost.seconds += by.latency + by.seconds_per_byte * static_cast<double>(piece * element_bytes);
  }
  return cost;
}

}  // namespace detail

/// The cost of one step of a tensor, its cuts even or not.
///
/// Collectives are counted as R. Thakur, R. Rabenseifner and W. Gropp do (Int. J. High Performance Computing
/// Applications 19, 2005) for their best algorithms on g devices: an all-gather or reduce-scatter takes log2(g) rounds,
/// an all-reduce twice as many; each device receives what it lacks of the gathered, all parts but its own of the
/// scattered, and both for the all-reduced. The messages of an exchange arrive one after the other.
template <int Axes, int Rank>
constexpr step_cost cost_of(mesh_sizes<Axes> const& mesh, mesh_links<Axes> const& net, shape<Rank> const& extents,
                            index_t element_bytes, step<Axes> const& s) {
  step_cost most;
  const axis_set group = mesh.cutting(s.group);
  const int members = mesh.group_size(group);
  if (s.kind == step_kind::slice || s.kind == step_kind::none || members == 1) return most;
  const link_cost by = net.of(group);
  for (int r = 0; r < mesh.devices(); ++r) {
    const auto at = mesh.coordinates(r);
    step_cost mine;
    if (s.kind == step_kind::exchange) {
      mine = detail::exchange_cost(mesh, net, extents, element_bytes, s, at);
    } else {
      const index_t held = local_box(mesh, s.from, extents, at).size();
      const index_t wanted = local_box(mesh, s.to, extents, at).size();
      mine.messages = detail::doubling_rounds(members);
      if (s.kind == step_kind::all_gather) mine.received = wanted - held;
      if (s.kind == step_kind::reduce_scatter) {
        for (int m = 0; m < members; ++m)
          mine.received += local_box(mesh, s.to, extents, mesh.group_member(group, at, m)).size();
        mine.received -= wanted;
      }
      if (s.kind == step_kind::all_reduce) {
        mine.received = 2 * (held - held / members);
        mine.messages *= 2;
      }
      mine.seconds =
          by.latency * mine.messages + by.seconds_per_byte * static_cast<double>(mine.received * element_bytes);
    }
    if (mine.received > most.received) most.received = mine.received;
    if (mine.messages > most.messages) most.messages = mine.messages;
    if (mine.seconds > most.seconds) most.seconds = mine.seconds;
  }
  return most;
}

/// Seconds that a route takes: its steps come one after the other.
template <int Axes, int Rank>
constexpr double seconds_of(mesh_sizes<Axes> const& mesh, mesh_links<Axes> const& net, shape<Rank> const& extents,
                            index_t element_bytes, route<Axes> const& r) {
  double sum = 0;
  for (auto const& s : r) sum += cost_of(mesh, net, extents, element_bytes, s).seconds;
  return sum;
}

/// The least that any device can receive in a change without reductions: what it wants and does not hold, for the
/// device that lacks most.
template <int Axes, int Rank>
constexpr index_t lacking_elements(mesh_sizes<Axes> const& mesh, shape<Rank> const& extents,
                                   placements<Axes> const& from, placements<Axes> const& to) {
  index_t most = 0;
  for (int r = 0; r < mesh.devices(); ++r) {
    const auto at = mesh.coordinates(r);
    const auto wanted = local_box(mesh, to, extents, at);
    const index_t lacks = wanted.size() - intersect(local_box(mesh, from, extents, at), wanted).size();
    if (lacks > most) most = lacks;
  }
  return most;
}

}  // namespace tessera
