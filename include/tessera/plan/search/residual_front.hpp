#pragma once

#include <tessera/plan/search/chain_front.hpp>

namespace tessera::detail {

/// A residual. Both sides start from one value, so each way in which the input may be made is searched for itself; few
/// are left that can be through before the limit.
template <class Problem, class Branch, class Shortcut, auto Extents, bool WantsInput, int Forwards, class From,
          class Aim>
struct part_front<Problem, residual<Branch, Shortcut>, Extents, WantsInput, Forwards, From, Aim> {
  static constexpr int axes = Problem::mesh::axes;
  using rest = part_rest<Problem, residual<Branch, Shortcut>, Extents, WantsInput, Forwards, Aim::ending, Aim::tie>;
  static constexpr bool plain = rest::plain;
  static constexpr bool shortcut_wanted = rest::shortcut_wanted;
  using in = typename rest::in;
  using out = typename rest::out;

  static constexpr edge_front<in::makes> given = front_of<in::makes>(From::times);
  static constexpr edge_front<in::makes> input = settled(given, in::template links<Forwards, WantsInput>());

  static constexpr auto meet = [] {
    meeting<axes, in::makes, out::makes, out::takes> m;
    m.mesh = Problem::mesh::value;
    m.costs = Problem::costs;
    m.input_rank = Extents.rank;
    m.input_bytes = static_cast<double>(in::bytes);
    m.wants_input = WantsInput;
    m.inputs = in::made;
    m.taken = out::taken;
    m.outputs = out::made;
    m.input = input;
    m.soonest = soonest_inputs<typename in::places>(input);
    m.adding = rest::adding;
    m.adding_gradients = rest::adding_gradients;
    return m;
  }();

  /// How long the branch may take from an input, with all that follows it; the shortcut has its least.
  static constexpr search_times<in::makes> left = [] {
    auto times = search_times<in::makes>::all(-1);
    for (int m = 0; m < in::makes; ++m) {
      if (meet.soonest.at[m] < 0 || !rest::by_branch.reaches(m)) continue;
      if (Aim::limit >= unreachable_time)
        times.at[m] = unreachable_time;
      else if (meet.soonest.at[m] + rest::by_branch.at[m] < Aim::limit)
        times.at[m] = Aim::limit - meet.soonest.at[m];
    }
    return times;
  }();
  static constexpr std::size_t start_count = [] {
    std::size_t n = 0;
    for (const search_time t : left.at) n += t >= 0;
    return n;
  }();
  /// The inputs that are searched, by the place in the ways of making them.
  static constexpr auto starts = [] {
    std::array<int, start_count> list{};
    std::size_t n = 0;
    for (int m = 0; m < in::makes; ++m)
      if (left.at[m] >= 0) list[n++] = m;
    return list;
  }();

  static constexpr search_times<in::makes> only(int start) {
    auto times = search_times<in::makes>::all(-1);
    times.at[start] = 1;
    return times;
  }
  static constexpr search_time less(search_time limit, search_time t) {
    return limit >= unreachable_time ? limit : limit - t;
  }
  template <int Start>
  using branch_from = chain_front<
      Problem, nodes_of<chain<Branch>>, Extents, WantsInput, Forwards, from_times<only(Start)>,
      search_aim<relative_times(rest::from_side),
                 less(left.at[Start], meet.adding_gradients.at[Start] + rest::shortcut_rest(Start) + rest::branch_base),
                 Aim::tie>>;
  /// What is left for the shortcut, from whichever way of making the same value serves the branch best.
  static constexpr search_time left_for_shortcut(int start) {
    search_time most = 0;
    for (const int m : starts)
      if (meet.alike(m, start)) {
        const search_time t = less(left.at[m], rest::by_branch.at[m] - rest::shortcut_rest(m));
        if (t > most) most = t;
      }
    return most;
  }
  template <int Start>
  using shortcut_from =
      chain_front<Problem, nodes_of<chain<Shortcut>>, Extents, WantsInput, Forwards, from_times<only(Start)>,
                  search_aim<search_times<out::makes>::all(1), left_for_shortcut(Start), Aim::tie>>;

  static constexpr sum_front<out::makes> sum = []<std::size_t... I>(std::index_sequence<I...>) {
    sum_front<out::makes> found;
    [[maybe_unused]] const auto pair = [&](int one, auto const& branch, int two, auto const& shortcut) {
      if (!meet.alike(one, two)) return;
      int joint = 0;
      const search_time at_input = meet.input_time(one, two, joint);
      if (at_input >= unreachable_time) return;
      for (int k = 0; k < out::takes; ++k) {
        if (!branch.reached(k) || !shortcut.reached(k)) continue;
        const int end = shortcut.from[k];
        if (!sums_in_any_layout<Shortcut> && !keeps_layout<axes>(out::made[end], out::taken[k])) continue;
        meet.offer(found, k, at_input + branch.time[k] + shortcut.time[k] + meet.adding.at[k], joint, one,
                   branch.from[k], two, end);
      }
    };
    [[maybe_unused]] const auto from_one = [&]<int One>(std::integral_constant<int, One>) {
      auto const& branch = branch_from<One>::end::reached;
      if constexpr (plain) {
        auto const& links = out::template links<Forwards, shortcut_wanted>();
        constexpr int value = in::places::of_way.value_of[One];
        int two = -1;
        int joint = 0;
        search_time at_input = 0;
        for (int k = 0; k < out::takes; ++k) {
          if (!branch.reached(k)) continue;
          const int made = links.made(value, k);
          if (made != two) {
            two = made;
            at_input = meet.input_time(One, two, joint);
          }
          meet.offer(found, k, at_input + branch.time[k] + links.time(value, k) + meet.adding.at[k], joint, One,
                     branch.from[k], made, made);
        }
      } else {
        (pair(One, branch, starts[I], shortcut_from<starts[I]>::end::reached), ...);
      }
    };
    (from_one(std::integral_constant<int, starts[I]>{}), ...);
    return found;
  }
  (std::make_index_sequence<start_count>{});

  static constexpr edge_front<out::makes> front = [] {
    const edge_front<out::makes> alone = sum;
    return settled(alone, out::template links<Forwards, rest::sum_wanted>());
  }();
};

}  // namespace tessera::detail
