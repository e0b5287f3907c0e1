#pragma once

#include <tessera/plan/search/link_front.hpp>
#include <tessera/plan/search/node.hpp>
#include <tessera/plan/search/sum_front.hpp>

namespace tessera::detail {

/// The ways in which a value of these extents can be, and its links where gradients are handed back or not.
template <class Problem, auto Extents>
struct edge_of_extents {
  static constexpr int rank = Extents.rank;
  using places = edge_places<Problem::mesh::value, rank>;
  static constexpr auto& taken = places::taken;
  static constexpr auto& made = places::made;
  static constexpr int takes = taken.size();
  static constexpr int makes = made.size();
  static constexpr auto bytes = static_cast<index_t>(Problem::template bytes_of<Extents>());
  template <int Forwards, bool Wanted>
  static constexpr timed_links<Problem, rank, Forwards, int{Wanted}, bytes> some_links{};
  template <int Forwards, bool Wanted>
  static constexpr auto const& links() {
    return some_links<Forwards, Wanted>;
  }
};

/// Picoseconds of adding two tensors into a third, by layout.
template <class Problem, auto Extents, int Count>
constexpr search_times<Count> adding_times(edge_list const& list, int times) {
  search_times<Count> out;
  for (int i = 0; i < Count; ++i) out.at[i] = times * time_of_sum<Problem>(list[i], Extents);
  return out;
}

/// The values that a word makes of all, as places in `values_to_make`.
template <int Count>
struct word_targets {
  std::int16_t at[static_cast<std::size_t>(Count)] = {};
};
template <class Mesh, class Word, int Rank>
inline constexpr auto targets_of_word = [] {
  constexpr auto& values = values_to_make<Mesh::value, Rank>;
  word_targets<values_to_make<Mesh::value, Rank>.size()> out;
  for (int v = 0; v < values.size(); ++v)
    out.at[v] = static_cast<std::int16_t>(values.place(
        edge_of(target_of_word<Mesh>(layout_of_edge<Mesh::axes>(values[v]), static_cast<Word const*>(nullptr)))));
  return out;
}();

/// A part from its end: no less than what it and all after it take, by the ways of making its input, after the least of
/// what follows.
template <class Problem, class Node, auto Extents, bool WantsInput, int Forwards, auto Ending, edge_code Tie>
struct part_rest;

/// The nodes of a chain, and of each edge the extents of the value and whether its gradient is wanted.
template <class Nodes, auto Extents, bool WantsInput>
struct chain_places {
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

  /// The node after those that are like node `I`, side by side.
  template <int I>
  static constexpr int run_end() {
    if constexpr (I + 1 < Nodes::count) {
      if constexpr (std::is_same_v<node<I>, node<I + 1>> && place<I>::wanted == place<I + 1>::wanted)
        if constexpr (place<I>::extents == place<I + 1>::extents) return run_end<I + 1>();
    }
    return I + 1;
  }
  template <int I>
  static constexpr int end_of_run = run_end<I>();
};

/// A chain from its end: no less than what its rest and all after it take, by the ways of making a value on the edge
/// before node `I`. Exact but for residuals, whose sides are taken for independent.
template <class Problem, class Nodes, auto Extents, bool WantsInput, int Forwards, auto Ending, edge_code Tie>
struct chain_rest {
  static constexpr int axes = Problem::mesh::axes;
  static constexpr int count = Nodes::count;
  using places = chain_places<Nodes, Extents, WantsInput>;
  template <int I>
  using node = typename places::template node<I>;
  template <int I>
  using place = typename places::template place<I>;
  template <int I>
  using edge = edge_of_extents<Problem, place<I>::extents>;

  /// What a word makes of each value.
  template <int I>
  static constexpr auto targets = targets_of_word<typename Problem::mesh, node<I>, place<I>::extents.rank>;

  /// Before parts that are alike, from the times after the last of them, less `base`. Where one adds the same to all
  /// times, so do those before it.
  template <class Part, int I, int Count, auto After>
  static constexpr search_times<edge<I>::makes> before_parts(search_time base) {
    using part = part_rest<Problem, Part, place<I>::extents, place<I>::wanted, Forwards, After, Tie>;
    constexpr search_time more = least_of(part::least);
    if constexpr (Count > 1 && more < unreachable_time) {
      constexpr auto before = relative_times(part::least);
      if constexpr (!(before == After)) return before_parts<Part, I, Count - 1, before>(base + more);
      base += (Count - 1) * more;
    }
    search_times<edge<I>::makes> out = part::least;
    for (search_time& t : out.at)
      if (t < unreachable_time) t += base;
    return out;
  }

  template <int I>
  static constexpr auto compute() {
    if constexpr (I == count) {
      return absolute_times<edge<I>::makes>(Ending);
    } else {
      using layer = node<I>;
      constexpr bool wanted = place<I>::wanted;
      if constexpr (is_part<layer>) {
        constexpr int end = places::template end_of_run<I>;
        return before_parts<layer, I, end - I, relative_times(least<end>)>(least_of(least<end>));
      } else if constexpr (is_word<layer>) {
        return rest_before_word(targets<I>.at, least<I + 1>, edge<I>::template links<Forwards, wanted>());
      } else {
        return rest_before(
            rest_of_layer<edge<I>::takes, edge<I + 1>::makes>(
                searched_layer<Problem, layer, place<I>::extents, wanted, Forwards>::ways, least<I + 1>, Tie),
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

// Forward runs once more in backward. A layout word may stand before it.
template <class Problem, class Layer, auto Extents, bool WantsInput, int Forwards, auto Ending, edge_code Tie>
struct part_rest<Problem, recompute<Layer>, Extents, WantsInput, Forwards, Ending, Tie> {
  using in = edge_of_extents<Problem, Extents>;
  static constexpr search_times<in::makes> least =
      settled_rest(chain_rest<Problem, nodes_of<chain<Layer>>, Extents, WantsInput,
                              Forwards + int{WantsInput || learning<bare<Layer>>}, Ending, Tie>::template least<0>,
                   in::template links<Forwards, WantsInput>());
};

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
      settled_rest(absolute_times<out::makes>(Ending), out::template links<Forwards, sum_wanted>());
  /// Of adding the sides, by the way in which the sum is taken.
  static constexpr search_times<out::takes> adding = adding_times<Problem, output, out::takes>(out::taken, Forwards);
  /// From a side's end: the sum in whatever layout, and all after it.
  static constexpr search_times<out::makes> from_side = [] {
    search_times<out::takes> taken;
    for (int k = 0; k < out::takes; ++k) {
      const search_time t = after.at[out::places::of_way.made_of[k]];
      taken.at[k] = t < unreachable_time ? t + adding.at[k] : t;
    }
    return rest_before(taken, out::template links<Forwards, branch_wanted>());
  }();
  using branch =
      chain_rest<Problem, nodes_of<chain<Branch>>, Extents, WantsInput, Forwards, relative_times(from_side), Tie>;
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

  /// The least rest of the shortcut from each value.
  static constexpr search_times<in::places::value_count> by_shortcut = [] {
    if constexpr (plain) {
      return search_times<in::places::value_count>::all(0);
    } else {
      return least_by_value<typename in::places>(shortcut::template least<0>);
    }
  }();
  /// That from the value of a way of making the input.
  static constexpr search_time shortcut_rest(int m) { return by_shortcut.at[in::places::of_way.value_of[m]]; }
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
    const auto soonest = least_by_value<typename in::places>(by_branch);
    search_times<in::makes> times;
    for (int m = 0; m < in::makes; ++m) times.at[m] = soonest.at[in::places::of_way.value_of[m]];
    return settled_rest(times, in::template links<Forwards, WantsInput>());
  }();
};

}  // namespace tessera::detail
