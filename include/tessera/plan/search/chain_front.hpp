#pragma once

#include <tessera/plan/search/chain_rest.hpp>

namespace tessera::detail {

/// Any layout of the input: that of a model.
struct from_anywhere {};
/// The input comes in these ways, after these times.
template <auto Times>
struct from_times {
  static constexpr auto times = Times;
};

/// What a search of a part looks for: ways that are through it and all that follows, `Ending`, before `Limit`; both
/// after the least of what follows. `Tie` is the layout of a shared weight, plus one, or 0.
template <auto Ending, search_time Limit, edge_code Tie>
struct search_aim {
  static constexpr auto ending = Ending;
  static constexpr search_time limit = Limit;
  static constexpr edge_code tie = Tie;
};

/// A residual or other part of a model that is searched for itself: `front` by what its output may be, `origin` being
/// what its input is.
template <class Problem, class Node, auto Extents, bool WantsInput, int Forwards, class From, class Aim>
struct part_front;

/// A chain: the fronts before each of its nodes and after the last.
template <class Problem, class Nodes, auto Extents, bool WantsInput, int Forwards, class From, class Aim>
struct chain_front {
  static constexpr int axes = Problem::mesh::axes;
  static constexpr int count = Nodes::count;
  static constexpr bool anywhere = std::is_same_v<From, from_anywhere>;
  template <int I>
  using node = type_at<I, typename Nodes::types>;
  using rest = chain_rest<Problem, Nodes, Extents, WantsInput, Forwards, Aim::ending, Aim::tie>;
  template <int I>
  using edge_before = typename rest::template edge<I>;

  template <int I>
  static constexpr void leave_out_late(edge_front<edge_before<I>::makes>& front) {
    if constexpr (Aim::limit < unreachable_time)
      for (int m = 0; m < edge_before<I>::makes; ++m)
        if (front.time[m] + rest::template least<I>.at[m] >= Aim::limit) front.time[m] = unreachable_time;
  }

  template <int I, class = void>
  struct before {
    using last = before<I - 1>;
    using layer = node<I - 1>;
    using edge = edge_before<I>;
    static constexpr auto extents = rest::template place<I>::extents;
    static constexpr bool wanted = rest::template place<I>::wanted;

    /// The search of a part that comes before this edge.
    template <class Layer>
    static constexpr auto part_type() {
      constexpr auto& after = rest::template least<I>;
      constexpr search_time base = least_of(last::front.time);
      using aim = search_aim<relative_times(after),
                             (Aim::limit < unreachable_time ? Aim::limit - base - least_of(after) : unreachable_time),
                             Aim::tie>;
      return std::type_identity<part_front<Problem, Layer, last::extents, last::wanted, Forwards,
                                           from_times<relative_times(last::front.time)>, aim>>{};
    }

    static constexpr edge_front<edge::makes> from_last() {
      if constexpr (is_part<layer>) {
        using part = typename decltype(part_type<layer>())::type;
        return front_after_part(part::front, last::front, least_of(last::front.time));
      } else if constexpr (is_word<layer>) {
        return front_after_word(rest::template targets<I - 1>.at, last::front,
                                edge::template links<Forwards, last::wanted>());
      } else {
        return front_after<edge::makes>(searched_layer<Problem, layer, last::extents, last::wanted, Forwards>::ways,
                                        last::front, last::reached, Aim::tie);
      }
    }
    static constexpr edge_front<edge::makes> front = [] {
      edge_front<edge::makes> out = from_last();
      leave_out_late<I>(out);
      return out;
    }();
    static constexpr edge_arrivals<edge::takes> reached = arrivals_of(front, edge::template links<Forwards, wanted>());
  };
  template <class Dummy>
  struct before<0, Dummy> {
    static constexpr auto extents = Extents;
    static constexpr bool wanted = WantsInput;
    using edge = edge_before<0>;
    static constexpr edge_front<edge::makes> front = [] {
      edge_front<edge::makes> out;
      if constexpr (anywhere) {
        // Of layouts that serve as well, the one that cuts by most axes: ranks load their own blocks.
        for (int k = 0; k < edge::takes; ++k)
          if (const edge_code code = edge::taken[k]; partial_gradients_of<axes>(code) == 0) {
            search_time whole_axes = 0;
            for (int a = 0; a < axes; ++a) whole_axes += tessera::edge::at(code, a) == tessera::edge::whole;
            out.offer(edge::made.place(code), whole_axes, edge::made.place(code), 0, edge::made.place(code));
          }
      } else {
        out = front_of<edge::makes>(From::times);
      }
      leave_out_late<0>(out);
      return out;
    }();
    static constexpr edge_arrivals<edge::takes> reached = arrivals_of(front, edge::template links<Forwards, wanted>());
  };

  using end = before<count>;
  static constexpr auto output = end::extents;
  static constexpr auto& front = end::front;
};

template <class Problem, class... Layers, auto Extents, bool WantsInput, int Forwards, class From, class Aim>
struct part_front<Problem, chain<Layers...>, Extents, WantsInput, Forwards, From, Aim>
    : chain_front<Problem, nodes_of<chain<Layers...>>, Extents, WantsInput, Forwards, From, Aim> {};

// Forward runs once more in backward. A layout word may stand before it.
template <class Problem, class Layer, auto Extents, bool WantsInput, int Forwards, class From, class Aim>
struct part_front<Problem, recompute<Layer>, Extents, WantsInput, Forwards, From, Aim> {
  using in = edge_of_extents<Problem, Extents>;
  static constexpr edge_front<in::makes> given = front_of<in::makes>(From::times);
  static constexpr edge_front<in::makes> input = settled(given, in::template links<Forwards, WantsInput>());
  using inner =
      chain_front<Problem, nodes_of<chain<Layer>>, Extents, WantsInput,
                  Forwards + int{WantsInput || learning<bare<Layer>>}, from_times<relative_times(input.time)>, Aim>;
  static constexpr auto front = [] {
    auto out = inner::front;
    for (auto& origin : out.origin) origin = input.origin[origin];
    return out;
  }();
};

}  // namespace tessera::detail
