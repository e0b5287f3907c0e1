#pragma once

#include <tessera/plan/search/chain_rest.hpp>
#include <tessera/plan/search/cut_bytes.hpp>

#include <utility>

namespace tessera::detail {

/// The links of an edge between steps of a search, and what belongs to what on it. Values lack their gradients.
struct step_links {
  timed_link const* const* rows = nullptr;  ///< by value, each by way of taking
  std::int16_t const* value_of = nullptr;   ///< of a way of making
  std::int16_t const* made_of = nullptr;    ///< of a way of taking: the way of making with its layout and gradient
  edge_code const* made = nullptr;
  edge_code const* taken = nullptr;
  int values = 0;
  int takes = 0;
  int makes = 0;
};

/// What there is between the sides of a residual at its input.
struct fork_tables {
  int sets = 1;
  std::int16_t const* set_of = nullptr;   ///< of a way of making: where its gradient is partial
  std::int16_t const* made_at = nullptr;  ///< by value and such a set (`value * sets + set`): the way of making, or -1
  search_time const* bring = nullptr;     ///< by way of making and set: to bring the gradient to where it is partial so
  search_time const* adding = nullptr;    ///< both parts of the gradient, by value
  bool wants_input = false;
};

enum class search_step_kind : std::uint8_t {
  layer,
  word,
  keep,    ///< what recomputes keeps its input
  settle,  ///< a layout word may stand here
  fork,    ///< a residual begins: the steps of the branch follow, its end, those of the shortcut, its end, the join
  end,     ///< of a side: its value is brought to the sum
  join,
  loss
};

/// A step through a model that is known while compiling. Chains are opened.
struct search_step {
  search_step_kind kind = search_step_kind::layer;
  step_links in{};  ///< the edge before it; of a join, that of the sum

  layer_way const* ways = nullptr;  ///< of a layer
  int way_count = 0;
  index_t const* bytes = nullptr;         ///< of a layer by cut, of a `keep` by value
  std::int16_t const* targets = nullptr;  ///< of a word: the value that it makes of each
  search_time const* times = nullptr;     ///< of a join and of the loss by way of taking
  fork_tables fork{};
  int shortcut = 0;        ///< of a fork: the first step of the shortcut
  int join = 0;            ///< of a fork and an end
  bool any_layout = true;  ///< of an end: the sum may be taken in any layout
};

/// The tables of an edge as constants.
template <class Problem, auto Extents, int Forwards, bool Wanted>
struct tables_of_edge {
  using edge = edge_of_extents<Problem, Extents>;
  static constexpr auto& links = edge::template links<Forwards, Wanted>();
  static constexpr auto& values = values_to_make<Problem::mesh::value, Extents.rank>;
  static constexpr auto rows = []<std::size_t... V>(std::index_sequence<V...>) {
    return std::array<timed_link const*, sizeof...(V)>{links.rows[V]...};
  }
  (std::make_index_sequence<static_cast<std::size_t>(values_to_make<Problem::mesh::value, Extents.rank>.size())>{});
  static constexpr auto made_of = [] {
    std::array<std::int16_t, static_cast<std::size_t>(edge::takes)> out{};
    for (int k = 0; k < edge::takes; ++k)
      out[static_cast<std::size_t>(k)] = static_cast<std::int16_t>(edge::made.place(edge::taken[k]));
    return out;
  }();
  static constexpr step_links value{rows.data(),       links.value_of, made_of.data(), edge::made.first,
                                    edge::taken.first, values.size(),  edge::takes,    edge::makes};
};

/// How many steps a node is.
template <class Node>
inline constexpr int step_count = 1;
template <>
inline constexpr int step_count<identity> = 0;
template <class... Layers>
inline constexpr int step_count<chain<Layers...>> = (0 + ... + step_count<bare<Layers>>);
template <class Layer>
inline constexpr int step_count<recompute<Layer>> = 2 + step_count<bare<Layer>>;
template <class Branch, class Shortcut>
inline constexpr int step_count<residual<Branch, Shortcut>> = 6 + step_count<bare<Branch>> + step_count<bare<Shortcut>>;

/// The steps of a model, or of any part of it. `Copies` is how many values an optimizer keeps for each parameter.
template <class Problem, index_t Copies>
struct steps_of {
  using mesh = typename Problem::mesh;
  static constexpr int axes = mesh::axes;

  template <class Layer, auto Extents, bool WantsInput, int Forwards>
  struct layer_tables {
    using searched = searched_layer<Problem, Layer, Extents, WantsInput, Forwards>;
    // What a recomputed part makes again lives only while its own backward runs.
    static constexpr bool keeps = (WantsInput || learning<Layer>)&&Forwards == 1;
    static constexpr std::size_t cuts = searched::kind::count;
    // Some at a time, so that no constant takes long to evaluate.
    static constexpr std::size_t at_a_time = 32;
    template <std::size_t First>
    static constexpr auto some = [] {
      std::array<index_t, at_a_time> out{};
      for (std::size_t i = First; i < First + at_a_time && i < cuts; ++i)
        out[i - First] = bytes_of_cut<Problem, Layer, Extents>(searched::kind::cuts.resolved[i], keeps, Copies,
                                                               static_cast<typename Layer::parameters const*>(nullptr));
      return out;
    }();
    static constexpr auto bytes = []<std::size_t... I>(std::index_sequence<I...>) {
      std::array<index_t, at_a_time> const* const all[] = {&some<I * at_a_time>...};
      std::array<index_t, cuts> out{};
      for (std::size_t i = 0; i < cuts; ++i) out[i] = (*all[i / at_a_time])[i % at_a_time];
      return out;
    }
    (std::make_index_sequence<(cuts + at_a_time - 1) / at_a_time>{});
  };
  template <class Word, auto Extents>
  struct word_tables {
    static constexpr auto targets = [] {
      constexpr auto& values = values_to_make<mesh::value, Extents.rank>;
      std::array<std::int16_t, static_cast<std::size_t>(values_to_make<mesh::value, Extents.rank>.size())> out{};
      for (int v = 0; v < values.size(); ++v)
        out[static_cast<std::size_t>(v)] = static_cast<std::int16_t>(values.place(
            edge_of(target_of_word<mesh>(layout_of_edge<axes>(values[v]), static_cast<Word const*>(nullptr)))));
      return out;
    }();
  };
  template <auto Extents>
  struct keep_tables {
    static constexpr auto bytes = [] {
      constexpr auto& values = values_to_make<mesh::value, Extents.rank>;
      std::array<index_t, static_cast<std::size_t>(values_to_make<mesh::value, Extents.rank>.size())> out{};
      for (int v = 0; v < values.size(); ++v)
        out[static_cast<std::size_t>(v)] = bytes_of_input<Problem, Extents>(values[v]);
      return out;
    }();
    static constexpr auto nothing = std::array<index_t, bytes.size()>{};
  };
  template <auto Extents>
  struct residual_tables {
    using edge = edge_of_extents<Problem, Extents>;
    static constexpr auto& values = values_to_make<mesh::value, Extents.rank>;
    static constexpr int sets = 1 << axes;
    static constexpr auto set_of = [] {
      std::array<std::int16_t, static_cast<std::size_t>(edge::makes)> out{};
      for (int m = 0; m < edge::makes; ++m)
        out[static_cast<std::size_t>(m)] = static_cast<std::int16_t>(partial_gradients_of<axes>(edge::made[m]));
      return out;
    }();
    static constexpr auto made_at = [] {
      std::array<std::int16_t, static_cast<std::size_t>(values_to_make<mesh::value, Extents.rank>.size() * sets)> out{};
      for (auto& place : out) place = -1;
      for (int m = 0; m < edge::makes; ++m)
        out[static_cast<std::size_t>(values.place(value_of_edge<axes>(edge::made[m])) * sets +
                                     set_of[static_cast<std::size_t>(m)])] = static_cast<std::int16_t>(m);
      return out;
    }();
    static constexpr auto routes = []<int... V>(std::integer_sequence<int, V...>) {
      using list = typename routes_from<Problem, Extents.rank, 0>::type;
      return std::array<list const*, sizeof...(V)>{&routes_from<Problem, Extents.rank, V>::costs...};
    }
    (std::make_integer_sequence<int, values_to_make<mesh::value, Extents.rank>.size()>{});
    static constexpr auto bring = [] {
      std::array<search_time, static_cast<std::size_t>(edge::makes * sets)> out{};
      for (int m = 0; m < edge::makes; ++m)
        for (int set = 0; set < sets; ++set) {
          const int own = set_of[static_cast<std::size_t>(m)];
          if (set == own || (set & ~own) != 0) continue;
          const auto gradient = gradient_of_edge<axes>(edge::made[m]);
          auto common = gradient;
          for (int a = 0; a < axes; ++a)
            if (((own & ~set) >> a & 1) != 0) common[a] = replicated_placement();
          link_cost const& cost =
              routes[static_cast<std::size_t>(values.place(edge_of(gradient)))]->at[values.place(edge_of(common))];
          out[static_cast<std::size_t>(m * sets + set)] =
              picoseconds(seconds_of(cost, static_cast<double>(edge::bytes)));
        }
      return out;
    }();
    static constexpr auto adding = [] {
      std::array<search_time, static_cast<std::size_t>(values_to_make<mesh::value, Extents.rank>.size())> out{};
      for (int v = 0; v < values.size(); ++v)
        out[static_cast<std::size_t>(v)] = time_of_sum<Problem>(values[v], Extents);
      return out;
    }();
    template <bool WantsInput>
    static constexpr fork_tables value{sets, set_of.data(), made_at.data(), bring.data(), adding.data(), WantsInput};
  };
  template <auto Extents, int Forwards>
  static constexpr auto sum_times = adding_times<Problem, Extents, edge_of_extents<Problem, Extents>::takes>(
      edge_of_extents<Problem, Extents>::taken, Forwards);

  template <auto Extents, int Forwards, bool Wanted>
  static constexpr search_step step(search_step_kind kind) {
    search_step one;
    one.kind = kind;
    one.in = tables_of_edge<Problem, Extents, Forwards, Wanted>::value;
    return one;
  }

  /// Writes those of a node, from the place `First` on.
  template <class Node, auto Extents, bool WantsInput, int Forwards, int First>
  static constexpr void fill(search_step* steps) {
    fill_node<Node, Extents, WantsInput, Forwards, First>(steps, static_cast<Node const*>(nullptr));
  }

 private:
  template <class Node, auto Extents, bool WantsInput, int Forwards, int First, class... Layers>
  static constexpr void fill_node(search_step* steps, chain<Layers...> const*) {
    fill_layers<Extents, WantsInput, Forwards, First, bare<Layers>...>(steps);
  }
  template <auto Extents, bool WantsInput, int Forwards, int First>
  static constexpr void fill_layers(search_step*) {}
  template <auto Extents, bool WantsInput, int Forwards, int First, class Layer, class... Rest>
  static constexpr void fill_layers(search_step* steps) {
    fill<Layer, Extents, WantsInput, Forwards, First>(steps);
    fill_layers<after_node<Layer, Extents>::extents, WantsInput || learning<Layer>, Forwards, First + step_count<Layer>,
                Rest...>(steps);
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards, int First, class Layer>
  static constexpr void fill_node(search_step* steps, recompute<Layer> const*) {
    constexpr bool again = WantsInput || learning<bare<Layer>>;
    steps[First] = step<Extents, Forwards, WantsInput>(search_step_kind::settle);
    search_step& keep = steps[First + 1];
    keep = step<Extents, Forwards, WantsInput>(search_step_kind::keep);
    keep.bytes = again ? keep_tables<Extents>::bytes.data() : keep_tables<Extents>::nothing.data();
    fill<bare<Layer>, Extents, WantsInput, Forwards + int{again}, First + 2>(steps);
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards, int First, class Branch, class Shortcut>
  static constexpr void fill_node(search_step* steps, residual<Branch, Shortcut> const*) {
    constexpr bool plain = std::is_same_v<Shortcut, identity>;
    constexpr auto output = after_node<Node, Extents>::extents;
    constexpr bool branch_wanted = WantsInput || learning<bare<Branch>>;
    constexpr bool shortcut_wanted = WantsInput || learning<bare<Shortcut>>;
    constexpr int branch_end = First + 2 + step_count<bare<Branch>>;
    constexpr int join = First + step_count<Node> - 2;
    steps[First] = step<Extents, Forwards, WantsInput>(search_step_kind::settle);
    search_step& fork = steps[First + 1];
    fork = step<Extents, Forwards, WantsInput>(search_step_kind::fork);
    fork.fork = residual_tables<Extents>::template value<WantsInput>;
    fork.shortcut = branch_end + 1;
    fill<bare<Branch>, Extents, WantsInput, Forwards, First + 2>(steps);
    steps[branch_end] = step<output, Forwards, branch_wanted>(search_step_kind::end);
    if constexpr (!plain) fill<bare<Shortcut>, Extents, WantsInput, Forwards, branch_end + 1>(steps);
    search_step& end = steps[join - 1];
    end = step<output, Forwards, shortcut_wanted>(search_step_kind::end);
    end.any_layout = sums_in_any_layout<Shortcut>;
    steps[join] = step < output, Forwards, branch_wanted || shortcut_wanted > (search_step_kind::join);
    steps[join].times = sum_times<output, Forwards>.at;
    for (const int i : {First + 1, branch_end, join - 1}) steps[i].join = join;
    steps[join + 1] = step < output, Forwards, branch_wanted || shortcut_wanted > (search_step_kind::settle);
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards, int First>
  static constexpr void fill_node(search_step* steps, void const*) {
    if constexpr (is_word<Node>) {
      steps[First] = step<Extents, Forwards, WantsInput>(search_step_kind::word);
      steps[First].targets = word_tables<Node, Extents>::targets.data();
    } else {
      using tables = layer_tables<Node, Extents, WantsInput, Forwards>;
      search_step& layer = steps[First];
      layer = step<Extents, Forwards, WantsInput>(search_step_kind::layer);
      layer.ways = tables::searched::ways.data();
      layer.way_count = static_cast<int>(tables::searched::ways.size());
      layer.bytes = tables::bytes.data();
    }
  }
};

}  // namespace tessera::detail
