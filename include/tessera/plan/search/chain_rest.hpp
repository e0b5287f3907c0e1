#pragma once

#include <tessera/plan/search/link_table.hpp>
#include <tessera/plan/search/node.hpp>
#include <tessera/plan/search/sum_front.hpp>

namespace tessera::detail {

/// The ways in which a value of these extents can be, and its links where gradients are handed back or not.
template <class Problem, auto Extents>
struct edge_of_extents {
  static constexpr int rank = Extents.rank;
  static constexpr auto& taken = ways_to_take<Problem::mesh::value, rank>;
  static constexpr auto& made = ways_to_make<Problem::mesh::value, rank>;
  static constexpr int takes = taken.size();
  static constexpr int makes = made.size();
  static constexpr auto bytes = static_cast<index_t>(Problem::template bytes_of<Extents>());
  /// (A function: clang 14 deduces nothing from a variable template that is a reference.)
  template <int Forwards, bool Wanted>
  static constexpr auto const& links() {
    return timed_links<Problem, rank, Forwards, int{Wanted}, bytes>;
  }
};

/// Picoseconds of adding two tensors into a third, by layout.
template <class Problem, auto Extents, int Count>
constexpr search_times<Count> adding_times(edge_list const& list, int times) {
  search_times<Count> out;
  for (int i = 0; i < Count; ++i) out.at[i] = times * time_of_sum<Problem>(list[i], Extents);
  return out;
}

/// A part from its end: no less than what it and all after it take, by the ways of making its input, after the least of
/// what follows.
template <class Problem, class Node, auto Extents, bool WantsInput, int Forwards, auto Ending, edge_code Tie>
struct part_rest;

/// A chain from its end: no less than what its rest and all after it take, by the ways of making a value on the edge before
/// node `I`. Exact but for residuals, whose sides are taken for independent.
template <class Problem, class Nodes, auto Extents, bool WantsInput, int Forwards, auto Ending, edge_code Tie>
struct chain_rest {
  static constexpr int axes = Problem::mesh::axes;
  static constexpr int count = Nodes::count;
  template <int I>
  using node = type_at<I, typename Nodes::types>;
  template <int I, class = void>
  struct place {
    static constexpr auto extents = after_node<node<I - 1>, place<I - 1>::extents>::extents;
    static constexpr bool wanted = place<I - 1>::wanted || learning<node<I - 1>>;
  };
  template <class Dummy>
  struct place<0, Dummy> {
    static constexpr auto extents = Extents;
    static constexpr bool wanted = WantsInput;
  };
  template <int I>
  using edge = edge_of_extents<Problem, place<I>::extents>;

  template <int I>
  static constexpr auto compute() {
    if constexpr (I == count) {
      return absolute_times<edge<I>::makes>(Ending);
    } else {
      using layer = node<I>;
      constexpr bool wanted = place<I>::wanted;
      if constexpr (is_part<layer>) {
        using part = part_rest<Problem, layer, place<I>::extents, wanted, Forwards, relative_times(least<I + 1>), Tie>;
        search_times<edge<I>::makes> out = part::least;
        const search_time base = least_of(least<I + 1>);
        for (search_time& t : out.at)
          if (t < unreachable_time) t += base;
        return out;
      } else if constexpr (is_word<layer>) {
        auto const& links = edge<I>::template links<Forwards, wanted>();
        auto out = search_times<edge<I>::makes>::unreachable();
        for (int m = 0; m < edge<I>::makes; ++m) {
          const edge_code target = edge_of(target_of_word<typename Problem::mesh>(layout_of_edge<axes>(edge<I>::made[m]),
                                                                                  static_cast<layer const*>(nullptr)));
          for (int k = 0; k < edge<I>::takes; ++k) {
            timed_link const& link = links.rows[links.value_of[m]][k];
            if (link.made != m || value_of_edge<axes>(edge<I>::taken[k]) != target) continue;
            const search_time t = link.time + least<I + 1>.at[edge<I>::made.place(edge<I>::taken[k])];
            if (t < out.at[m]) out.at[m] = t;
          }
        }
        return out;
      } else {
        return rest_before(rest_of_layer<edge<I>::takes, edge<I + 1>::makes>(
                               searched_layer<Problem, layer, place<I>::extents, wanted, Forwards>::ways, least<I + 1>,
                               Tie),
                           edge<I>::template links<Forwards, wanted>());
      }
    }
  }
  template <int I>
  static constexpr search_times<edge<I>::makes> least = compute<I>();
};

template <class Problem, class... Layers, auto Extents, bool WantsInput, int Forwards, auto Ending, edge_code Tie>
struct part_rest<Problem, chain<Layers...>, Extents, WantsInput, Forwards, Ending, Tie> {
  static constexpr auto& least =
      chain_rest<Problem, nodes_of<chain<Layers...>>, Extents, WantsInput, Forwards, Ending, Tie>::template least<0>;
};

// Forward runs once more in backward.
template <class Problem, class Layer, auto Extents, bool WantsInput, int Forwards, auto Ending, edge_code Tie>
struct part_rest<Problem, recompute<Layer>, Extents, WantsInput, Forwards, Ending, Tie> {
  static constexpr auto& least =
      chain_rest<Problem, nodes_of<chain<Layer>>, Extents, WantsInput,
                 Forwards + int{WantsInput || learning<bare<Layer>>}, Ending, Tie>::template least<0>;
};

/// The rest with words between, as `settled`.
template <int Values, int Taken, int Made>
constexpr search_times<Made> settled_rest(search_times<Made> const& rest, edge_links<Values, Taken, Made> const& links,
                                          edge_list const& taken, edge_list const& made) {
  search_times<Taken> by_word;
  for (int k = 0; k < Taken; ++k) by_word.at[k] = rest.at[made.place(taken[k])];
  auto out = rest_before(by_word, links);
  for (int m = 0; m < Made; ++m)
    if (rest.at[m] < out.at[m]) out.at[m] = rest.at[m];
  return out;
}

template <class Problem, class Branch, class Shortcut, auto Extents, bool WantsInput, int Forwards, auto Ending,
          edge_code Tie>
struct part_rest<Problem, residual<Branch, Shortcut>, Extents, WantsInput, Forwards, Ending, Tie> {
  static constexpr int axes = Problem::mesh::axes;
  static constexpr bool plain = std::is_same_v<Shortcut, identity>;
  static constexpr bool branch_wanted = WantsInput || learning<bare<Branch>>;
  static constexpr bool shortcut_wanted = WantsInput || learning<bare<Shortcut>>;
  /// Whether gradients of the sum are.
  static constexpr bool sum_wanted = branch_wanted || shortcut_wanted;
  using in = edge_of_extents<Problem, Extents>;
  static constexpr auto output = after_node<bare<Branch>, Extents>::extents;
  using out = edge_of_extents<Problem, output>;

  /// From the sum, by the ways of making it.
  static constexpr search_times<out::makes> after =
      settled_rest(absolute_times<out::makes>(Ending), out::template links<Forwards, sum_wanted>(), out::taken, out::made);
  /// Of adding the sides, by the way in which the sum is taken.
  static constexpr search_times<out::takes> adding = adding_times<Problem, output, out::takes>(out::taken, Forwards);
  /// From a side's end: the sum in whatever layout, and all after it.
  static constexpr search_times<out::makes> from_side = [] {
    search_times<out::takes> taken;
    for (int k = 0; k < out::takes; ++k) {
      const search_time t = after.at[out::made.place(out::taken[k])];
      taken.at[k] = t < unreachable_time ? t + adding.at[k] : t;
    }
    return rest_before(taken, out::template links<Forwards, branch_wanted>());
  }();
  using branch = chain_rest<Problem, nodes_of<chain<Branch>>, Extents, WantsInput, Forwards, relative_times(from_side), Tie>;
  static constexpr search_time branch_base = least_of(from_side);
  /// The shortcut alone: what the sum costs is counted with the branch.
  struct no_shortcut {};
  template <bool Plain, class Dummy = void>
  struct other {
    using type = chain_rest<Problem, nodes_of<chain<Shortcut>>, Extents, WantsInput, Forwards,
                            search_times<out::makes>::all(1), Tie>;
  };
  template <class Dummy>
  struct other<true, Dummy> {
    using type = no_shortcut;
  };
  using shortcut = typename other<plain>::type;

  /// The least rest of the shortcut from the value of a way of making the input.
  static constexpr search_time shortcut_rest(int m) {
    if constexpr (plain) {
      return 0;
    } else {
      search_time soonest = unreachable_time;
      for (int i = 0; i < in::makes; ++i)
        if (value_of_edge<axes>(in::made[i]) == value_of_edge<axes>(in::made[m]) &&
            shortcut::template least<0>.at[i] < soonest)
          soonest = shortcut::template least<0>.at[i];
      return soonest;
    }
  }
  /// Of adding both parts of the input's gradient.
  static constexpr search_times<in::makes> adding_gradients =
      adding_times<Problem, Extents, in::makes>(in::made, int{WantsInput});
  /// From each way in which the branch may use the input.
  static constexpr search_times<in::makes> by_branch = [] {
    auto times = branch::template least<0>;
    for (int m = 0; m < in::makes; ++m)
      if (times.reaches(m)) times.at[m] += branch_base + adding_gradients.at[m] + shortcut_rest(m);
    return times;
  }();
  static constexpr search_times<in::makes> least = [] {
    // The gradient is handed back partial where both sides do so: along no more axes than the branch's.
    auto times = search_times<in::makes>::unreachable();
    for (int m = 0; m < in::makes; ++m)
      for (int i = 0; i < in::makes; ++i)
        if (value_of_edge<axes>(in::made[i]) == value_of_edge<axes>(in::made[m]) && by_branch.at[i] < times.at[m])
          times.at[m] = by_branch.at[i];
    return settled_rest(times, in::template links<Forwards, WantsInput>(), in::taken, in::made);
  }();
};

}  // namespace tessera::detail
