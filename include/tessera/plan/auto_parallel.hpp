#pragma once

#include <tessera/plan/parallel.hpp>
#include <tessera/plan/search/found.hpp>

namespace tessera {

namespace detail {
struct first_axis : axis<1> {};
}

/// A search may cut what these split words name, and nothing else: `only<split_batch, split_output>`.
template <template <class...> class... Words>
struct only {
  static constexpr bool allows(std::string_view word) { return ((Words<detail::first_axis>::word == word) || ...); }
};

namespace detail {

struct allow_all {
  static constexpr bool allows(std::string_view) { return true; }
};
template <class Option>
struct is_only : std::false_type {};
template <template <class...> class... Words>
struct is_only<only<Words...>> : std::true_type {};

/// What the loss takes, by the way in which it takes the output: with the gradient whole, its time included.
template <class Problem, auto Extents>
constexpr search_time loss_time(edge_code code) {
  constexpr int axes = Problem::mesh::axes;
  if (partial_gradients_of<axes>(code) != 0) return unreachable_time;
  if constexpr (Extents.rank != 2) {
    return 0;
  } else {
    // Cross-entropy reads rows three times forward and writes the gradient; where classes are cut, maxima and sums of rows
    // are exchanged.
    const auto layout = layout_of_edge<axes>(code);
    const double elements = largest_size(Problem::mesh::value, layout, Extents, Problem::unknown);
    const auto bytes = static_cast<double>(Problem::element_bytes);
    double seconds = Problem::machine.seconds(0, 4 * elements * bytes, Problem::element_bytes);
    const axis_set classes = layout.shard_axes(1);
    if (classes != 0) {
      const double rows = largest_size(Problem::mesh::value, layout, shape<2>{{Extents[0], 1}}, Problem::unknown);
      seconds += 2 * 2 * seconds_of(Problem::costs.gather[classes], rows * bytes);
    }
    return picoseconds(seconds);
  }
}

template <class Model>
struct without_policies {
  using type = Model;
};
template <class Model, class... Policies>
struct without_policies<parallel<Model, Policies...>> {
  using type = Model;
};

/// A search whose tied layers cut the weight they share in one layout (`Tie`, plus one; 0: there are none).
template <class Problem, class Model, class Input, edge_code Tie>
struct tied_search {
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
  /// The search within a limit above the bound, and within a wider one where it finds nothing below.
  template <int Step>
  static constexpr auto search() {
    constexpr search_time limit = Step > 10 ? unreachable_time : bound + (bound >> (Step > 10 ? 0 : 10 - Step)) + 1;
    using found = chain_front<Problem, nodes, Input::extents, false, 1, from_anywhere,
                              search_aim<relative_times(ending), limit, Tie>>;
    if constexpr (best_of<found>().time - least_of(ending) < limit || Step > 10)
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
inline constexpr bool has_tie_inside<chain<Layers...>> = ((has_tie<bare<Layers>> || has_tie_inside<bare<Layers>>) || ...);
template <class Branch, class Shortcut>
inline constexpr bool has_tie_inside<residual<Branch, Shortcut>> =
    has_tie_inside<chain<Branch>> || has_tie_inside<chain<Shortcut>>;
template <class Layer>
inline constexpr bool has_tie_inside<recompute<Layer>> = has_tie_inside<chain<Layer>>;

/// Whether layers share one weight at the most, and none inside a part: the search tries its layouts one after the other.
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
  using first = tied_search<Problem, Model, Input, 0>;
  static constexpr auto ties = ties_from<Problem, typename first::rest, 0>();

  template <std::size_t I>
  using with_tie = tied_search<Problem, Model, Input, ties[I]>;
  template <std::size_t I, class Best>
  static constexpr auto best_from() {
    if constexpr (I == ties.size()) {
      return std::type_identity<Best>{};
    } else if constexpr (std::is_void_v<Best>) {
      return best_from<I + 1, with_tie<I>>();
    } else if constexpr (with_tie<I>::bound + least_of(with_tie<I>::ending) < Best::best.time) {
      if constexpr (with_tie<I>::best.time < Best::best.time)
        return best_from<I + 1, with_tie<I>>();
      else
        return best_from<I + 1, Best>();
    } else {
      return best_from<I + 1, Best>();
    }
  }
  using type = typename decltype(best_from<0, void>())::type;
};

}  // namespace detail

/// A search for the splits that take a model the least time on a mesh of a machine's devices, and what it found. All of it
/// is known while compiling.
///
/// `Options`: `only<...>` to search fewer splits. Layers keep the split words that they have, and layout words stay.
template <class Model, class Input, device_mesh Mesh, computing_machine Machine, class... Options>
struct auto_parallel_search {
  static_assert(std::is_same_v<Model, typename detail::without_policies<Model>::type>,
                "tessera: this model has policies, which a search would lose; search the model inside, and write "
                "parallel<...> around auto_parallel_search<...>::model");
  static_assert(detail::is_input<Input>::value,
                "tessera: a search needs the extents of the model's input; name them, as in input<256, 3, 224, 224>");
  static_assert((detail::is_only<Options>::value && ...),
                "tessera: this is no option of auto_parallel; it has only<split_batch, ...> to search fewer splits");
  static_assert((0 + ... + int{detail::is_only<Options>::value}) < 2,
                "tessera: a search has one only<...>; name all split words in it");
  using allowed = detail::option_or_t<detail::is_only, detail::allow_all, Options...>;
  using problem = search_problem<Mesh, Machine, float, allowed, 100>;
  using serial = typename detail::without_policies<Model>::type;
  static_assert(detail::ties_can_be_searched<detail::nodes_of<serial>>(),
                "tessera: a search takes one weight that layers share, all of them in the outermost chain; leave out "
                "tied<...>, or name the splits of this model by hand");
  using search = typename detail::model_search<problem, serial, Input>::type;
  static_assert(search::best.made >= 0,
                "tessera: no plan of this model uses only the splits that are allowed, with the words that its layers "
                "have; allow more in only<...>");

  /// The time of a step on the additive cost model: kernels, routes, collectives, and reductions of gradients as if nothing
  /// hid them.
  static constexpr search_time time = search::best.time;
  static constexpr double seconds = static_cast<double>(time) * 1e-12;

 private:
  using front = typename search::front;
  using edge = typename search::edge;
  using pieces = detail::built_nodes<problem, front, 1, search::best.made>;
  using path = detail::chain_path<front, search::best.made>;
  static constexpr int axes = Mesh::axes;
  static constexpr auto input_layout =
      layout_of_edge<axes>(front::template before<0>::edge::made[path::template at<0>()]);
  static constexpr auto output_layout = layout_of_edge<axes>(edge::taken[search::best.taken]);
  static constexpr bool word_at_end = !(output_layout == dual(layout_of_edge<axes>(edge::made[search::best.made])));

  template <class... Nodes>
  static auto finish(detail::built<chain<Nodes...>>) {
    using end = decltype(detail::built<Nodes...>{} + detail::word_if<word_at_end, Mesh, output_layout>{});
    return std::type_identity<decltype(detail::chain_of(end{}))>{};
  }
  template <class Node>
  static auto finish(detail::built<Node>) {
    return finish(detail::built<chain<Node>>{});
  }

 public:
  /// The model with its splits, without policies.
  using model = typename decltype(finish(typename detail::rebuilt<pieces, 0, detail::bare<serial>>::type{}))::type;
  using type = parallel<model, Input, tessera::input_layout<layout_of<Mesh, input_layout>>>;
};

/// The model with the splits that take the least time on a machine: an ordinary model type.
///
///     using found = auto_parallel<model::resnet50<1000>, input<256, 3, 224, 224>, mesh<dp, tp>, machine::ascend_910_server>;
template <class Model, class Input, device_mesh Mesh, computing_machine Machine, class... Options>
using auto_parallel = typename auto_parallel_search<Model, Input, Mesh, Machine, Options...>::type;

}  // namespace tessera
