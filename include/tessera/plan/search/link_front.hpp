#pragma once

#include <tessera/plan/search/front.hpp>
#include <tessera/plan/search/link_table.hpp>

namespace tessera::detail {

/// Values come in order of time: those that are made no sooner than all ways of taking are reached lead nowhere sooner.
template <class Links>
constexpr edge_arrivals<Links::takes> arrivals_of(edge_front<Links::makes> const& front, Links const& links) {
  constexpr int makes = Links::makes;
  constexpr int takes = Links::takes;
  auto const& of_value = Links::places::of_value;
  auto const& of_way = Links::places::of_way;
  edge_arrivals<takes> best;
  for (search_time& t : best.time) t = unreachable_time;
  // The soonest of each value, gradients aside, in order.
  search_time soonest[static_cast<std::size_t>(Links::places::value_count)] = {};
  int order[static_cast<std::size_t>(Links::places::value_count)] = {};
  int count = 0;
  for (int m = 0; m < makes; ++m) {
    const search_time t = front.time[m];
    if (t >= unreachable_time) continue;
    const int v = of_way.value_of[m];
    int i = 0;
    while (i < count && order[i] != v) ++i;
    if (i == count)
      ++count;
    else if (soonest[v] <= t)
      continue;
    soonest[v] = t;
    for (; i > 0 && (soonest[order[i - 1]] > t || (soonest[order[i - 1]] == t && order[i - 1] > v)); --i)
      order[i] = order[i - 1];
    order[i] = v;
  }
  int missing = takes;
  search_time latest = unreachable_time;
  for (int i = 0; i < count && soonest[order[i]] < latest; ++i) {
    const int v = order[i];
    auto const& groups = *Links::groups.at[v];
    for (int set = 0; set < Links::places::sets; ++set) {
      const int m = of_value.made_at[v][set];
      if (m < 0 || front.time[m] >= latest) continue;
      for (int g = groups.begin[set]; g < groups.begin[set + 1]; ++g) {
        const search_time t = front.time[m] + groups.time(g, links.bytes);
        if (t >= latest) continue;
        for (int j = g == 0 ? 0 : groups.end[g - 1]; j < groups.end[g]; ++j) {
          const int k = groups.members[j];
          if (t >= best.time[k]) continue;
          missing -= best.time[k] == unreachable_time;
          best.time[k] = t;
          best.from[k] = static_cast<std::int16_t>(m);
        }
      }
    }
    if (missing > 0 || i + 1 == count) continue;
    latest = 0;
    for (const search_time t : best.time)
      if (t > latest) latest = t;
  }
  return best;
}

/// The least rest of a part from each way of making a value: searched backwards, from an end that costs nothing.
///
/// Links come in order of what they cost: those that with the least of all rests take no less than the least so far
/// need not be looked at.
template <class Links>
constexpr search_times<Links::makes> rest_before(search_times<Links::takes> const& taken, Links const& links) {
  constexpr int sets = Links::places::sets;
  auto const& of_value = Links::places::of_value;
  auto const& of_way = Links::places::of_way;
  auto out = search_times<Links::makes>::unreachable();
  // By where gradients are partial.
  auto least = search_times<sets>::unreachable();
  for (int k = 0; k < Links::takes; ++k)
    if (search_time& best = least.at[of_way.set_of_taken[k]]; taken.at[k] < best) best = taken.at[k];
  for (int v = 0; v < Links::places::value_count; ++v) {
    auto const& groups = *Links::groups.at[v];
    for (int set = 0; set < sets; ++set) {
      if (groups.begin[set] == groups.begin[set + 1]) continue;
      search_time after = unreachable_time;
      for (int partial = 0; partial < sets; ++partial)
        if (least.at[partial] < after && Links::set(v, partial) == set) after = least.at[partial];
      if (after >= unreachable_time) continue;
      search_time best = unreachable_time;
      for (int g = groups.begin[set]; g < groups.begin[set + 1]; ++g) {
        if (after + groups.least(g, links.bytes) >= best) break;
        const search_time link = groups.time(g, links.bytes);
        for (int j = g == 0 ? 0 : groups.end[g - 1]; j < groups.end[g]; ++j)
          if (const search_time t = link + taken.at[groups.members[j]]; t < best) best = t;
      }
      out.at[of_value.made_at[v][set]] = best;
    }
  }
  return out;
}

/// The front after a layout word, by the value that each becomes; a choice is a way of taking the value.
template <class Links>
constexpr edge_front<Links::makes> front_after_word(
    std::int16_t const (&targets)[static_cast<std::size_t>(Links::places::value_count)],
    edge_front<Links::makes> const& before, Links const& links) {
  auto const& of_value = Links::places::of_value;
  auto const& of_way = Links::places::of_way;
  edge_front<Links::makes> out;
  for (int m = 0; m < Links::makes; ++m) {
    if (!before.reaches(m)) continue;
    const int v = of_way.value_of[m];
    for (int set = 0; set < Links::places::sets; ++set) {
      const int k = of_value.taken_at[targets[v]][set];
      if (k >= 0 && Links::set(v, set) == of_way.set_of[m])
        out.offer(of_way.made_of[k], before.time[m] + links.time(v, k), m, k, before.origin[m]);
    }
  }
  return out;
}
/// The rest before one, from that after it.
template <class Links>
constexpr search_times<Links::makes> rest_before_word(
    std::int16_t const (&targets)[static_cast<std::size_t>(Links::places::value_count)],
    search_times<Links::makes> const& after, Links const& links) {
  auto const& of_value = Links::places::of_value;
  auto const& of_way = Links::places::of_way;
  auto out = search_times<Links::makes>::unreachable();
  for (int v = 0; v < Links::places::value_count; ++v)
    for (int set = 0; set < Links::places::sets; ++set) {
      const int k = of_value.taken_at[targets[v]][set];
      if (k < 0) continue;
      search_time& there = out.at[of_value.made_at[v][Links::set(v, set)]];
      if (const search_time t = after.at[of_way.made_of[k]]; t < there)
        if (const search_time all = t + links.time(v, k); all < there) there = all;
    }
  return out;
}

/// The front with words between: each value that can be taken is also what another becomes by a layout word, where that
/// is sooner. The choice is 1 then, else 0, and values come from themselves.
template <class Links>
constexpr edge_front<Links::makes> settled(edge_front<Links::makes> const& before, Links const& links) {
  const auto reached = arrivals_of(before, links);
  edge_front<Links::makes> out;
  for (int m = 0; m < Links::makes; ++m)
    if (before.reaches(m)) out.offer(m, before.time[m], m, 0, before.origin[m]);
  for (int k = 0; k < Links::takes; ++k)
    if (reached.reached(k))
      out.offer(Links::places::of_way.made_of[k], reached.time[k], reached.from[k], 1, before.origin[reached.from[k]]);
  return out;
}
/// The rest before such words.
template <class Links>
constexpr search_times<Links::makes> settled_rest(search_times<Links::makes> const& rest, Links const& links) {
  search_times<Links::takes> by_word;
  for (int k = 0; k < Links::takes; ++k) by_word.at[k] = rest.at[Links::places::of_way.made_of[k]];
  auto out = rest_before(by_word, links);
  for (int m = 0; m < Links::makes; ++m)
    if (rest.at[m] < out.at[m]) out.at[m] = rest.at[m];
  return out;
}

/// The least of each value, over ways of making it.
template <class Places>
constexpr search_times<Places::value_count> least_by_value(search_times<Places::makes> const& times) {
  auto out = search_times<Places::value_count>::unreachable();
  for (int m = 0; m < Places::makes; ++m)
    if (search_time& best = out.at[Places::of_way.value_of[m]]; times.at[m] < best) best = times.at[m];
  return out;
}

}  // namespace tessera::detail
