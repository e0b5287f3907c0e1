#pragma once

#include <tessera/plan/search/layer_ways.hpp>

#include <limits>

namespace tessera::detail {

// Plain arrays: constant evaluation spends most of its time in calls of the standard library's.

/// No way leads there.
inline constexpr search_time unreachable_time = std::numeric_limits<search_time>::max() / 4;

template <int Count>
struct search_times {
  search_time at[static_cast<std::size_t>(Count)] = {};
  friend constexpr bool operator==(search_times const&, search_times const&) = default;

  static constexpr search_times all(search_time t) {
    search_times out;
    for (search_time& one : out.at) one = t;
    return out;
  }
  static constexpr search_times unreachable() { return all(unreachable_time); }
  constexpr bool reaches(int i) const { return at[i] < unreachable_time; }
};

/// The soonest ways to all that a value may be on an edge: by its place in `ways_to_make`, the time, the value on the
/// edge before that it comes from, and what was chosen on the way.
template <int Made>
struct edge_front {
  search_time time[static_cast<std::size_t>(Made)] = {};
  std::int16_t from[static_cast<std::size_t>(Made)] = {};
  std::int16_t choice[static_cast<std::size_t>(Made)] = {};
  /// The value at the beginning of the part.
  std::int16_t origin[static_cast<std::size_t>(Made)] = {};

  constexpr edge_front() {
    for (search_time& t : time) t = unreachable_time;
  }
  constexpr bool reaches(int m) const { return time[m] < unreachable_time; }
  constexpr void offer(int made, search_time t, int came, int chose, int began) {
    if (t >= time[made]) return;
    time[made] = t;
    from[made] = static_cast<std::int16_t>(came);
    choice[made] = static_cast<std::int16_t>(chose);
    origin[made] = static_cast<std::int16_t>(began);
  }
};

/// The soonest ways to take a value, by the place in `ways_to_take`: the time, and the value it is made as.
template <int Taken>
struct edge_arrivals {
  search_time time[static_cast<std::size_t>(Taken)] = {};
  std::int16_t from[static_cast<std::size_t>(Taken)] = {};
  constexpr bool reached(int k) const { return time[k] < unreachable_time; }
};

/// The front after a layer. With a tie, ways with another layout of a shared weight are left out.
template <int Made, int Before, int Taken, std::size_t Ways>
constexpr edge_front<Made> front_after(std::array<layer_way, Ways> const& ways, edge_front<Before> const& before,
                                       edge_arrivals<Taken> const& reached, edge_code tie) {
  edge_front<Made> out;
  int w = 0;
  for (layer_way const& way : ways) {
    const int place = w++;
    if (!reached.reached(way.taken) || (tie != 0 && way.tie != 0 && way.tie != tie)) continue;
    const search_time t = reached.time[way.taken] + way.time;
    if (t < out.time[way.made])
      out.offer(way.made, t, reached.from[way.taken], place, before.origin[reached.from[way.taken]]);
  }
  return out;
}

/// The rest from the ways of taking a layer's input, from that of its output.
template <int Taken, int Made, std::size_t Ways>
constexpr search_times<Taken> rest_of_layer(std::array<layer_way, Ways> const& ways, search_times<Made> const& after,
                                            edge_code tie) {
  auto out = search_times<Taken>::unreachable();
  for (layer_way const& way : ways) {
    if (tie != 0 && way.tie != 0 && way.tie != tie) continue;
    if (const search_time t = way.time + after.at[way.made]; t < out.at[way.taken]) out.at[way.taken] = t;
  }
  return out;
}

/// The front after a part that has one of its own, from the times of `before` less `base`.
template <int Made, int Before>
constexpr edge_front<Made> front_after_part(edge_front<Made> const& part, edge_front<Before> const& before,
                                            search_time base) {
  edge_front<Made> out;
  for (int m = 0; m < Made; ++m)
    if (part.reaches(m)) out.offer(m, base + part.time[m], part.origin[m], m, before.origin[part.origin[m]]);
  return out;
}

/// The least of some times.
template <std::size_t Count>
constexpr search_time least_of(search_time const (&times)[Count]) {
  search_time least = unreachable_time;
  for (const search_time t : times)
    if (t < least) least = t;
  return least;
}
template <int Count>
constexpr search_time least_of(search_times<Count> const& times) {
  return least_of(times.at);
}

/// How a part begins, or what follows it: times after the least, plus one, and -1 for what is not reached. (g++ 12
/// takes template arguments for equal whose arrays differ only in where their zeros are.) Parts that begin and go on
/// alike are one type, so that repeated blocks are planned once.
template <std::size_t Count>
constexpr auto relative_times(search_time const (&times)[Count]) {
  search_times<static_cast<int>(Count)> out;
  const search_time least = least_of(times);
  for (std::size_t i = 0; i < Count; ++i) out.at[i] = times[i] < unreachable_time ? times[i] - least + 1 : -1;
  return out;
}
template <int Count>
constexpr search_times<Count> relative_times(search_times<Count> const& times) {
  return relative_times(times.at);
}
/// The times after the least again.
template <int Count>
constexpr search_times<Count> absolute_times(search_times<Count> const& relative) {
  search_times<Count> out;
  for (int i = 0; i < Count; ++i) out.at[i] = relative.at[i] > 0 ? relative.at[i] - 1 : unreachable_time;
  return out;
}
/// The front of a part that begins in these ways.
template <int Made>
constexpr edge_front<Made> front_of(search_times<Made> const& relative) {
  edge_front<Made> out;
  const auto times = absolute_times(relative);
  for (int m = 0; m < Made; ++m) out.offer(m, times.at[m], m, 0, m);
  return out;
}

}  // namespace tessera::detail
