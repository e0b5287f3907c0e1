#pragma once

#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/residual.hpp>
#include <tessera/layer/stage.hpp>

namespace tessera::detail {

/// What a search sees of a model's tree.
template <class Node>
struct bare_node {
  using type = Node;
};
template <class Node>
requires requires {
  typename Node::composition;
} &&(!std::is_same_v<typename Node::composition, Node>)struct bare_node<Node> : bare_node<typename Node::composition> {
};
/// A model's type without the names that it was given.
template <class Node>
using bare = typename bare_node<Node>::type;

template <class Node>
inline constexpr bool is_chain = false;
template <class... Layers>
inline constexpr bool is_chain<chain<Layers...>> = true;
template <class Node>
inline constexpr bool is_part = is_chain<Node>;
template <class Branch, class Shortcut>
inline constexpr bool is_part<residual<Branch, Shortcut>> = true;
template <class Layer>
inline constexpr bool is_part<recompute<Layer>> = true;
/// Whether the sum of a residual with this shortcut may have any layout: a layout word can end a chain, and be a shortcut of
/// its own. Else it has that of the shortcut.
template <class Shortcut>
inline constexpr bool sums_in_any_layout = std::is_same_v<Shortcut, identity> || is_chain<bare<Shortcut>>;
/// Words of a chain that change layouts, or nothing.
template <class Node>
inline constexpr bool is_word = layout_word<Node>;
template <class... Axes>
inline constexpr bool is_word<whole_along<Axes...>> = true;
template <int Dim, class... Axes>
inline constexpr bool is_word<cut_along<Dim, Axes...>> = true;
template <int Number>
inline constexpr bool is_word<stage<Number>> = true;
template <>
inline constexpr bool is_word<unnumbered> = true;

/// The layout that a word brings a value to.
template <class Mesh, class Word>
constexpr placements<Mesh::axes> target_of_word(placements<Mesh::axes> const& from, Word const*) {
  if constexpr (layout_word<Word>)
    return placements_of<Mesh, Word>;
  else if constexpr (requires { Word::template target<Mesh>(from); })
    return Word::template target<Mesh>(from);
  else
    return from;
}

/// The extents after a node, and whether it has anything to train.
template <class Node, auto Extents>
struct after_node {
  static constexpr auto extents = [] {
    if constexpr (is_word<Node>)
      return Extents;
    else
      return Node::template output<Extents>();
  }();
};
template <class Node>
inline constexpr bool learning = [] {
  if constexpr (is_word<Node>)
    return false;
  else
    return any_trainable(static_cast<typename Node::parameters const*>(nullptr));
}();
template <>
inline constexpr bool learning<identity> = false;
template <class... Layers>
inline constexpr bool learning<chain<Layers...>> = (learning<bare<Layers>> || ...);
template <class Branch, class Shortcut>
inline constexpr bool learning<residual<Branch, Shortcut>> = learning<bare<Branch>> || learning<bare<Shortcut>>;
template <class Layer>
inline constexpr bool learning<recompute<Layer>> = learning<bare<Layer>>;

template <auto Extents, class... Layers>
struct after_layers {
  static constexpr auto extents = Extents;
};
template <auto Extents, class First, class... Rest>
struct after_layers<Extents, First, Rest...> : after_layers<after_node<bare<First>, Extents>::extents, Rest...> {};
template <class... Layers, auto Extents>
struct after_node<chain<Layers...>, Extents> : after_layers<Extents, Layers...> {};
template <class Branch, class Shortcut, auto Extents>
struct after_node<residual<Branch, Shortcut>, Extents> : after_node<bare<Branch>, Extents> {};
template <class Layer, auto Extents>
struct after_node<recompute<Layer>, Extents> : after_node<bare<Layer>, Extents> {};

/// Layers in order, with nested chains opened, but for those that come several times: they are parts, searched once.
template <class... Nodes>
struct node_list {
  using types = type_list<Nodes...>;
  static constexpr int count = static_cast<int>(sizeof...(Nodes));
};
template <class Done, class... Rest>
struct open_chains;
template <class... Done>
struct open_chains<node_list<Done...>> {
  using type = node_list<Done...>;
};
template <class Node, class... Siblings>
inline constexpr bool comes_again = (0 + ... + int{std::is_same_v<Node, bare<Siblings>>}) > 1;
/// A layer of a chain whose layers are `Siblings`.
template <class Node, class... Siblings>
struct open_node {
  using type = node_list<Node>;
};
template <class... Layers, class... Siblings>
requires(!comes_again<chain<Layers...>, Siblings...>) struct open_node<chain<Layers...>, Siblings...> {
  using type = typename open_chains<node_list<>, typename open_node<bare<Layers>, Layers...>::type...>::type;
};
template <class... Done, class... Nodes, class... Rest>
struct open_chains<node_list<Done...>, node_list<Nodes...>, Rest...> {
  using type = typename open_chains<node_list<Done..., Nodes...>, Rest...>::type;
};
/// The nodes of a part or model.
template <class Node>
using nodes_of = typename open_node<bare<Node>>::type;

}  // namespace tessera::detail
