#pragma once

#include <tessera/plan/respell.hpp>
#include <tessera/plan/search/residual_front.hpp>

namespace tessera::detail {

/// A piece of a model that is put together: nodes of a chain in order.
template <class... Nodes>
struct built {};
template <class... A, class... B>
auto operator+(built<A...>, built<B...>) -> built<A..., B...>;

/// What a search counts, in picoseconds, against an input of this layout, so that of plans of equal time the one that
/// cuts the input along most axes is the best.
template <int Axes>
constexpr search_time axes_that_replicate(placements<Axes> const& layout) {
  search_time count = 0;
  for (int a = 0; a < Axes; ++a) count += layout[a].is_replicated();
  return count;
}

/// A layout word, or nothing.
template <bool There, class Mesh, placements<Mesh::axes> Layout>
using word_if = typename std::conditional_t<There, std::type_identity<built<layout_of<Mesh, Layout>>>,
                                            std::type_identity<built<>>>::type;

/// A layer that a search cuts in one of its ways, after a value that is made in a layout.
template <class Problem, class Layer, auto Extents, bool WantsInput, int Forwards, int Way, edge_code Made>
struct built_layer {
  using mesh = typename Problem::mesh;
  using searched = searched_layer<Problem, Layer, Extents, WantsInput, Forwards>;
  static constexpr layer_way way = searched::ways[static_cast<std::size_t>(Way)];
  static constexpr letter_cuts cuts = searched::cut(way);
  static constexpr index_rules rules = Layer::template rules<Extents>();
  static constexpr auto made = layout_of_edge<mesh::axes>(Made);
  static constexpr auto taken = layout_of_edge<mesh::axes>(ways_to_take<mesh::value, Extents.rank>[way.taken]);
  static constexpr unsigned given = [] {
    unsigned axes = 0;
    const auto named = cuts_named_by<mesh>(typename Layer::words{});
    for (int i = 0; i < named.count; ++i) axes |= 1u << named.list[i].axis;
    return axes;
  }();
  static constexpr spelling spelled = spell_layer<mesh>(rules, made, taken, cuts, given);
  static constexpr auto named = names_of<mesh>(rules, {cuts, spelled.axes & ~given});

  /// The words of `named`, each with the axes that stand together.
  template <int First, int Count>
  static constexpr auto one_word() {
    return []<int... I>(std::integer_sequence<int, I...>) {
      using found = decltype(word_of_text<word_text(named.list[First].word),
                                          typename mesh::template axis_at<named.list[First + I].axis>...>());
      return std::type_identity<built<typename found::type>>{};
    }
    (std::make_integer_sequence<int, Count>{});
  }
  template <int First>
  static constexpr auto words_from() {
    if constexpr (First == named.count) {
      return std::type_identity<built<>>{};
    } else {
      constexpr int count = [] {
        int n = 0;
        while (First + n < named.count && named.list[First + n].word == named.list[First].word) ++n;
        return n;
      }();
      using one = typename decltype(one_word<First, count>())::type;
      using rest = typename decltype(words_from<First + count>())::type;
      return std::type_identity<decltype(one{} + rest{})>{};
    }
  }
  template <class... Words>
  static auto respell(built<Words...>) -> typename with_words<Layer, Words...>::type;
  using layer = decltype(respell(typename decltype(words_from<0>())::type{}));
  using type = decltype(word_if<spelled.word, mesh, taken>{} + built<layer>{});
};

/// The value on each edge of a chain that ends in one.
template <class Front, int End>
struct chain_path {
  template <int I>
  static constexpr int at() {
    if constexpr (I == Front::count)
      return End;
    else
      return Front::template before<I + 1>::front.from[at<I + 1>()];
  }
  /// What was chosen at node `I`.
  template <int I>
  static constexpr int choice() {
    return Front::template before<I + 1>::front.choice[at<I + 1>()];
  }
};

template <class Problem, class Part, class Node, int End>
struct built_part;

/// The nodes of a searched chain as they are found, one piece for each.
template <class Problem, class Front, int Forwards, int End>
struct built_nodes {
  using path = chain_path<Front, End>;
  template <int I>
  static constexpr auto piece() {
    using node = typename Front::template node<I>;
    using before = typename Front::template before<I>;
    if constexpr (is_part<node>) {
      using part = typename decltype(Front::template before<I + 1>::template part_type<node>())::type;
      return std::type_identity<typename built_part<Problem, part, node, path::template choice<I>()>::type>{};
    } else if constexpr (is_word<node>) {
      return std::type_identity<built<node>>{};
    } else {
      return std::type_identity<
          typename built_layer<Problem, node, before::extents, before::wanted, Forwards, path::template choice<I>(),
                               before::edge::made[path::template at<I>()]>::type>{};
    }
  }
  template <int I>
  using at = typename decltype(piece<I>())::type;
};

/// Puts pieces back into the tree that a node was: chains that a search opens are chains again. `First` is the place of
/// the node's first piece; `type` is the node as pieces, `count` how many pieces it had.
template <class Pieces, int First, class Node, class... Siblings>
struct rebuilt {
  using type = typename Pieces::template at<First>;
  static constexpr int count = 1;
};
template <class... Nodes>
auto chain_of(built<Nodes...>) -> chain<Nodes...>;
template <class Pieces, int First, class Done, class List, class... Siblings>
struct rebuilt_layers {
  using type = Done;
  static constexpr int count = 0;
};
template <class... Layers>
struct layer_list {};
template <class Pieces, int First, class Done, class Layer, class... Rest, class... Siblings>
struct rebuilt_layers<Pieces, First, Done, layer_list<Layer, Rest...>, Siblings...> {
  using here = rebuilt<Pieces, First, bare<Layer>, Siblings...>;
  using rest = rebuilt_layers<Pieces, First + here::count, decltype(Done{} + typename here::type{}),
                              layer_list<Rest...>, Siblings...>;
  using type = typename rest::type;
  static constexpr int count = here::count + rest::count;
};
template <class Pieces, int First, class... Layers, class... Siblings>
requires(!comes_again<chain<Layers...>, Siblings...>) struct rebuilt<Pieces, First, chain<Layers...>, Siblings...> {
  using layers = rebuilt_layers<Pieces, First, built<>, layer_list<Layers...>, Layers...>;
  using type = built<decltype(chain_of(typename layers::type{}))>;
  static constexpr int count = layers::count;
};

/// One layer with layout words keeps the layer's place.
template <class... Nodes>
struct only_node {
  using type = chain<unnumbered, Nodes...>;
};
template <class Node>
struct only_node<Node> {
  using type = Node;
};
template <class... Nodes>
auto node_of_pieces(built<Nodes...>) -> typename only_node<Nodes...>::type;
/// A searched chain as a node: a chain stays one, also of one layer.
template <class Problem, class Front, class Node, int Forwards, int End>
using built_node =
    decltype(node_of_pieces(typename rebuilt<built_nodes<Problem, Front, Forwards, End>, 0, bare<Node>>::type{}));

template <class Problem, class... Layers, auto Extents, bool WantsInput, int Forwards, class From, class Aim, int End>
struct built_part<Problem, part_front<Problem, chain<Layers...>, Extents, WantsInput, Forwards, From, Aim>,
                  chain<Layers...>, End> {
  using front = part_front<Problem, chain<Layers...>, Extents, WantsInput, Forwards, From, Aim>;
  using type = built<built_node<Problem, front, chain<Layers...>, Forwards, End>>;
};
template <class Problem, class Layer, auto Extents, bool WantsInput, int Forwards, class From, class Aim, int End>
struct built_part<Problem, part_front<Problem, recompute<Layer>, Extents, WantsInput, Forwards, From, Aim>,
                  recompute<Layer>, End> {
  using mesh = typename Problem::mesh;
  using part = part_front<Problem, recompute<Layer>, Extents, WantsInput, Forwards, From, Aim>;
  static constexpr int forwards = Forwards + int{WantsInput || learning<bare<Layer>>};
  static constexpr int start = part::inner::front.origin[End];
  static constexpr bool word_before = part::input.choice[start] == 1;
  static constexpr auto before = layout_of_edge<mesh::axes>(part::in::made[start]);
  using type = decltype(word_if<word_before, mesh, before>{} +
                        built<recompute<built_node<Problem, typename part::inner, Layer, forwards, End>>>{});
};
template <class Problem, class Branch, class Shortcut, auto Extents, bool WantsInput, int Forwards, class From,
          class Aim, int End>
struct built_part<Problem, part_front<Problem, residual<Branch, Shortcut>, Extents, WantsInput, Forwards, From, Aim>,
                  residual<Branch, Shortcut>, End> {
  using mesh = typename Problem::mesh;
  using part = part_front<Problem, residual<Branch, Shortcut>, Extents, WantsInput, Forwards, From, Aim>;
  // A word after the sum.
  static constexpr bool word_after = part::front.choice[End] == 1;
  static constexpr int sum = part::front.from[End];
  static constexpr auto after = layout_of_edge<mesh::axes>(part::out::made[End]);
  // A word before.
  static constexpr int start = part::sum.from[sum];
  static constexpr bool word_before = part::input.choice[start] == 1;
  static constexpr auto before = layout_of_edge<mesh::axes>(part::in::made[start]);

  using branch = built_node<Problem, typename part::template branch_from<part::sum.branch_start[sum]>, Branch, Forwards,
                            part::sum.branch_end[sum]>;

  static constexpr auto joined = layout_of_edge<mesh::axes>(part::out::made[sum]);
  static constexpr auto other_end = layout_of_edge<mesh::axes>(part::out::made[part::sum.shortcut_end[sum]]);
  static constexpr bool word_on_shortcut = !(joined == dual(other_end));
  template <class... Layers>
  static auto with_word(chain<Layers...>) -> chain<Layers..., layout_of<mesh, joined>>;
  static constexpr auto shortcut_type() {
    if constexpr (part::plain) {
      return std::type_identity<std::conditional_t<word_on_shortcut, layout_of<mesh, joined>, identity>>{};
    } else {
      using side = built_node<Problem, typename part::template shortcut_from<part::sum.shortcut_start[sum]>, Shortcut,
                              Forwards, part::sum.shortcut_end[sum]>;
      if constexpr (word_on_shortcut)
        return std::type_identity<decltype(with_word(side{}))>{};
      else
        return std::type_identity<side>{};
    }
  }
  using shortcut = typename decltype(shortcut_type())::type;
  using type = decltype(word_if<word_before, mesh, before>{} + built<residual<branch, shortcut>>{} +
                        word_if<word_after, mesh, after>{});
};

}  // namespace tessera::detail
