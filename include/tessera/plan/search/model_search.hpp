#pragma once

#include <tessera/plan/search/loss_time.hpp>
#include <tessera/plan/search/residual_front.hpp>

namespace tessera::detail {

/// The first pass of a search whose tied layers cut the weight they share in one layout (`Tie`, plus one; 0: there are
/// none).
template <class Problem, class Model, class Input, edge_code Tie>
struct tied_bound {
  using nodes = nodes_of<Model>;
  static constexpr auto output = after_node<bare<Model>, Input::extents>::extents;
  using edge = edge_of_extents<Problem, output>;

  /// From each way of making the output: the loss in the layout that suits it best.
  static constexpr search_times<edge::makes> ending = [] {
    search_times<edge::takes> taken;
    for (int k = 0; k < edge::takes; ++k) taken.at[k] = loss_time<Problem, output>(edge::taken[k]);
    return rest_before(taken, edge::template links<1, true>());
  }();
  using rest = chain_rest<Problem, nodes, Input::extents, false, 1, relative_times(ending), Tie>;
  /// No plan takes less; most often one takes just this.
  static constexpr search_time bound = least_of(rest::template least<0>);
};

/// The search. (Apart from its bound, since a class that is used looks for what its names stand for.)
template <class Problem, class Model, class Input, edge_code Tie>
struct tied_search : tied_bound<Problem, Model, Input, Tie> {
  using first_pass = tied_bound<Problem, Model, Input, Tie>;
  using first_pass::bound;
  using first_pass::ending;
  using first_pass::output;
  using typename first_pass::edge;
  using typename first_pass::nodes;

  /// The value at the end, the way in which the loss takes it, and the time until then.
  struct choice {
    int made = -1;
    int taken = -1;
    search_time time = unreachable_time;
  };
  template <class Front>
  static constexpr choice best_of() {
    choice found;
    for (int k = 0; k < edge::takes; ++k) {
      if (!Front::end::reached.reached(k)) continue;
      const search_time loss = loss_time<Problem, output>(edge::taken[k]);
      if (loss >= unreachable_time) continue;
      if (const search_time t = Front::end::reached.time[k] + loss; t < found.time)
        found = {Front::end::reached.from[k], k, t};
    }
    return found;
  }
  /// The search for plans that take just the bound, and within wider limits where there are none.
  template <int Step>
  static constexpr auto search() {
    constexpr search_time limit =
        Step > 11 ? unreachable_time : bound + (Step == 0 ? 0 : bound >> (11 - (Step > 11 ? 11 : Step))) + 1;
    using found = chain_front<Problem, nodes, Input::extents, false, 1, from_anywhere,
                              search_aim<relative_times(ending), limit, Tie>>;
    if constexpr (best_of<found>().time - least_of(ending) < limit || Step > 11)
      return std::type_identity<found>{};
    else
      return search<Step + 1>();
  }
  using front = typename decltype(search<0>())::type;
  static constexpr choice best = best_of<front>();
};

/// The layouts, plus one, in which a layer may cut a weight that it shares.
template <std::size_t Ways>
struct tie_list {
  edge_code list[Ways] = {};
  std::size_t count = 0;
};
template <std::size_t Ways>
constexpr tie_list<Ways> ties_of_ways(std::array<layer_way, Ways> const& ways) {
  tie_list<Ways> found;
  for (layer_way const& way : ways) {
    bool seen = way.tie == 0;
    for (std::size_t i = 0; i < found.count; ++i) seen = seen || found.list[i] == way.tie;
    if (!seen) found.list[found.count++] = way.tie;
  }
  return found;
}
/// The name by which a layer shares a weight, or void.
template <class Layer>
struct tie_of_node {
  using type = void;
};
template <class Layer>
requires(!is_word<Layer> && !is_part<Layer> && !std::is_same_v<Layer, identity>) struct tie_of_node<Layer> {
  template <class First, class... P>
  static auto name(parameter_list<First, P...> const*) {
    if constexpr (!std::is_void_v<typename First::tie>)
      return std::type_identity<typename First::tie>{};
    else
      return name(static_cast<parameter_list<P...> const*>(nullptr));
  }
  static auto name(parameter_list<> const*) { return std::type_identity<void>{}; }
  using type = typename decltype(name(static_cast<typename Layer::parameters const*>(nullptr)))::type;
};
template <class Layer>
inline constexpr bool has_tie = !std::is_void_v<typename tie_of_node<Layer>::type>;
/// Whether a layer inside a part does.
template <class Node>
inline constexpr bool has_tie_inside = false;
template <class... Layers>
inline constexpr bool has_tie_inside<chain<Layers...>> = ((has_tie<bare<Layers>> || has_tie_inside<bare<Layers>>) ||
                                                          ...);
template <class Branch, class Shortcut>
inline constexpr bool has_tie_inside<residual<Branch, Shortcut>> =
    has_tie_inside<chain<Branch>> || has_tie_inside<chain<Shortcut>>;
template <class Layer>
inline constexpr bool has_tie_inside<recompute<Layer>> = has_tie_inside<chain<Layer>>;

/// Whether layers share one weight at the most, and none inside a part: the search tries its layouts one after the
/// other.
template <class Nodes>
constexpr bool ties_can_be_searched() {
  return []<int... I>(std::integer_sequence<int, I...>) {
    if ((has_tie_inside<type_at<I, typename Nodes::types>> || ...)) return false;
    const void* first = nullptr;
    bool one = true;
    const auto look = [&](const void* name) {
      if (name != nullptr && first != nullptr && name != first) one = false;
      if (name != nullptr) first = name;
    };
    (look(tie_of<typename tie_of_node<type_at<I, typename Nodes::types>>::type>), ...);
    return one;
  }
  (std::make_integer_sequence<int, Nodes::count>{});
}
/// Those of the first layer of a model that shares one, or 0.
template <class Problem, class Rest, int I>
constexpr auto ties_from() {
  if constexpr (I == Rest::count) {
    return std::array<edge_code, 1>{};
  } else if constexpr (has_tie<typename Rest::template node<I>>) {
    using here = typename Rest::template place<I>;
    constexpr auto found =
        ties_of_ways(searched_layer<Problem, typename Rest::template node<I>, here::extents, here::wanted, 1>::ways);
    std::array<edge_code, found.count> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = found.list[i];
    return out;
  } else {
    return ties_from<Problem, Rest, I + 1>();
  }
}

template <class Problem, class Model, class Input>
struct model_search {
  using first = tied_bound<Problem, Model, Input, 0>;
  static constexpr auto ties = ties_from<Problem, typename first::rest, 0>();

  template <std::size_t I>
  using with_tie = tied_search<Problem, Model, Input, ties[I]>;
  template <std::size_t I>
  static constexpr search_time bound = tied_bound<Problem, Model, Input, ties[I]>::bound +
                                       least_of(tied_bound<Problem, Model, Input, ties[I]>::ending);
  /// The layouts, those with the lowest bound first: most of the others cannot be better than what is found in these.
  static constexpr auto order = []<std::size_t... I>(std::index_sequence<I...>) {
    const search_time bounds[] = {bound<I>...};
    std::array<std::size_t, sizeof...(I)> places{I...};
    for (std::size_t& place : places)
      for (std::size_t* at = &place; at != places.data() && bounds[at[-1]] > bounds[*at]; --at) {
        const std::size_t later = at[-1];
        at[-1] = *at;
        *at = later;
      }
    return places;
  }
  (std::make_index_sequence<ties.size()>{});
  /// Of layouts that are as good the first one counts.
  static constexpr bool comes_before(search_time time, std::size_t place, search_time best, std::size_t place_of_best) {
    return time < best || (time == best && place < place_of_best);
  }
  template <std::size_t I, std::size_t Best>
  static constexpr auto best_from() {
    if constexpr (I == ties.size()) {
      return std::type_identity<with_tie<Best>>{};
    } else {
      constexpr std::size_t place = order[I];
      if constexpr (comes_before(bound<place>, place, with_tie<Best>::best.time, Best)) {
        if constexpr (comes_before(with_tie<place>::best.time, place, with_tie<Best>::best.time, Best))
          return best_from<I + 1, place>();
        else
          return best_from<I + 1, Best>();
      } else {
        return best_from<I + 1, Best>();
      }
    }
  }
  using type = typename decltype(best_from<1, order[0]>())::type;
};

}  // namespace tessera::detail
