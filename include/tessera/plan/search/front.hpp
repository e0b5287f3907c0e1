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

/// The soonest ways to all that a value may be on an edge: by its place in `ways_to_make`, the time, the value on the edge
/// before that it comes from, and what was chosen on the way.
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

/// A link for a tensor of known size: picoseconds, and the place of the value that it starts from, gradient included.
struct timed_link {
  search_time time = 0;
  std::int16_t made = 0;
};

/// The links of an edge by values without their gradients and by the ways of taking them; and which value each way of
/// making has.
template <int Values, int Taken, int Made>
struct edge_links {
  timed_link rows[static_cast<std::size_t>(Values)][static_cast<std::size_t>(Taken)] = {};
  std::int16_t value_of[static_cast<std::size_t>(Made)] = {};
};

/// The soonest ways to take a value, by the place in `ways_to_take`: the time, and the value it is made as.
template <int Taken>
struct edge_arrivals {
  search_time time[static_cast<std::size_t>(Taken)] = {};
  std::int16_t from[static_cast<std::size_t>(Taken)] = {};
  constexpr bool reached(int k) const { return time[k] < unreachable_time; }
};

/// Values come in order of time: those that are made no sooner than all ways of taking are reached lead nowhere sooner.
template <int Values, int Taken, int Made>
constexpr edge_arrivals<Taken> arrivals_of(edge_front<Made> const& front,
                                           edge_links<Values, Taken, Made> const& links) {
  edge_arrivals<Taken> best;
  for (search_time& t : best.time) t = unreachable_time;
  // The soonest of each value, gradients aside.
  search_time soonest[static_cast<std::size_t>(Values)] = {};
  for (search_time& t : soonest) t = unreachable_time;
  for (int m = 0; m < Made; ++m)
    if (front.time[m] < soonest[links.value_of[m]]) soonest[links.value_of[m]] = front.time[m];
  search_time latest = unreachable_time;
  for (int round = 0; round < Values; ++round) {
    int v = 0;
    for (int i = 1; i < Values; ++i)
      if (soonest[i] < soonest[v]) v = i;
    if (soonest[v] >= latest) break;
    soonest[v] = unreachable_time;
    latest = 0;
    for (int k = 0; k < Taken; ++k) {
      timed_link const& link = links.rows[v][k];
      search_time& there = best.time[k];
      if (const search_time t = front.time[link.made] + link.time; t < there) {
        there = t;
        best.from[k] = link.made;
      }
      if (there > latest) latest = there;
    }
  }
  return best;
}

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

/// The least rest of a part from each way of making a value: searched backwards, from an end that costs nothing.
template <int Values, int Taken, int Made>
constexpr search_times<Made> rest_before(search_times<Taken> const& taken, edge_links<Values, Taken, Made> const& links) {
  auto out = search_times<Made>::unreachable();
  for (auto const& row : links.rows)
    for (int k = 0; k < Taken; ++k)
      if (const search_time t = row[k].time + taken.at[k]; t < out.at[row[k].made]) out.at[row[k].made] = t;
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

/// The front after a layout word, by what each value becomes; a choice is a way of taking the value.
template <int Axes, int Made, int Values, int Taken>
constexpr edge_front<Made> front_after_word(edge_code const (&targets)[static_cast<std::size_t>(Made)],
                                            edge_front<Made> const& before,
                                            edge_links<Values, Taken, Made> const& links, edge_list const& taken,
                                            edge_list const& made) {
  edge_front<Made> out;
  for (int m = 0; m < Made; ++m) {
    if (!before.reaches(m)) continue;
    for (int k = 0; k < Taken; ++k) {
      timed_link const& link = links.rows[links.value_of[m]][k];
      if (link.made != m || value_of_edge<Axes>(taken[k]) != targets[m]) continue;
      out.offer(made.place(taken[k]), before.time[m] + link.time, m, k, before.origin[m]);
    }
  }
  return out;
}

/// The front with words between: each value that can be taken is also what another becomes by a layout word, where that
/// is sooner. The choice is 1 then, else 0, and values come from themselves.
template <int Made, int Taken>
constexpr edge_front<Made> settled(edge_front<Made> const& before, edge_arrivals<Taken> const& reached,
                                      edge_list const& taken, edge_list const& made) {
  edge_front<Made> out;
  for (int m = 0; m < Made; ++m)
    if (before.reaches(m)) out.offer(m, before.time[m], m, 0, before.origin[m]);
  for (int k = 0; k < Taken; ++k)
    if (reached.reached(k))
      out.offer(made.place(taken[k]), reached.time[k], reached.from[k], 1, before.origin[reached.from[k]]);
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

/// How a part begins, or what follows it: times after the least, plus one, and -1 for what is not reached. (g++ 12 takes
/// template arguments for equal whose arrays differ only in where their zeros are.) Parts that begin and go on alike are
/// one type, so that repeated blocks are planned once.
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
