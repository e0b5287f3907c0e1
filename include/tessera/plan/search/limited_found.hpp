#pragma once

#include <tessera/plan/search/found.hpp>
#include <tessera/plan/search/limited_search.hpp>

namespace tessera::detail {

/// Puts the plan that `Labels` found for the steps of a model into types.
template <class Steps, class Labels>
struct limited_found {
  using problem = typename Steps::problem;
  using mesh = typename problem::mesh;
  static constexpr int axes = mesh::axes;

  template <int I>
  static constexpr plan_choice choice = Labels::plan.at[I];
  /// How the value before a step is made.
  template <int I>
  static constexpr edge_code made = Steps::steps.at[I].in.made[choice<I>.before];
  template <int I>
  static constexpr placements<axes> layout = layout_of_edge<axes>(made<I>);
  /// The layout word that a step stands for, where it changes anything.
  template <int I>
  struct settled_word {
    static constexpr placements<axes> to = layout<I + 1>;
    static constexpr bool there = !(layout<I> == to);
    using type = word_if<there, mesh, to>;
  };
  template <int I>
  using settled = typename settled_word<I>::type;

  /// The pieces of a node whose first step is `First`.
  template <class Node, auto Extents, bool WantsInput, int Forwards, int First>
  struct piece {
    static constexpr auto find() {
      if constexpr (is_word<Node>)
        return std::type_identity<built<Node>>{};
      else
        return std::type_identity<typename built_layer<problem, Node, Extents, WantsInput, Forwards,
                                                       choice<First>.choice, made<First>>::type>{};
    }
    using type = typename decltype(find())::type;
  };
  template <class Node, auto Extents, bool WantsInput, int Forwards, int First>
  using side = decltype(node_of_pieces(typename piece<bare<Node>, Extents, WantsInput, Forwards, First>::type{}));

  template <class Done, auto Extents, bool WantsInput, int Forwards, int First, class... Layers>
  struct layers {
    using type = Done;
  };
  template <class Done, auto Extents, bool WantsInput, int Forwards, int First, class Layer, class... Rest>
  struct layers<Done, Extents, WantsInput, Forwards, First, Layer, Rest...>
      : layers<decltype(Done{} + typename piece<Layer, Extents, WantsInput, Forwards, First>::type{}),
               after_node<Layer, Extents>::extents, WantsInput || learning<Layer>, Forwards, First + step_count<Layer>,
               Rest...> {};
  template <class... Layers, auto Extents, bool WantsInput, int Forwards, int First>
  struct piece<chain<Layers...>, Extents, WantsInput, Forwards, First> {
    using type = built<decltype(chain_of(
        typename layers<built<>, Extents, WantsInput, Forwards, First, bare<Layers>...>::type{}))>;
  };
  template <class Layer, auto Extents, bool WantsInput, int Forwards, int First>
  struct piece<recompute<Layer>, Extents, WantsInput, Forwards, First> {
    static constexpr int forwards = Forwards + int{WantsInput || learning<bare<Layer>>};
    using type = decltype(settled<First>{} + built<recompute<side<Layer, Extents, WantsInput, forwards, First + 2>>>{});
  };
  template <class Branch, class Shortcut, auto Extents, bool WantsInput, int Forwards, int First>
  struct piece<residual<Branch, Shortcut>, Extents, WantsInput, Forwards, First> {
    static constexpr int join = First + step_count<residual<Branch, Shortcut>> - 2;
    using branch = side<Branch, Extents, WantsInput, Forwards, First + 2>;
    static constexpr auto other() {
      using side_type = typename decltype(shortcut_side())::type;
      if constexpr (layout<join> == dual(layout<join - 1>))
        return std::type_identity<side_type>{};
      else
        return std::type_identity<decltype(with_word(side_type{}))>{};
    }
    static constexpr auto shortcut_side() {
      if constexpr (std::is_same_v<Shortcut, identity>)
        return std::type_identity<identity>{};
      else
        return std::type_identity<side<Shortcut, Extents, WantsInput, Forwards, Steps::steps.at[First + 1].shortcut>>{};
    }
    static auto with_word(identity) -> layout_of<mesh, layout<join>>;
    template <class... Layers>
    static auto with_word(chain<Layers...>) -> chain<Layers..., layout_of<mesh, layout<join>>>;
    using shortcut = typename decltype(other())::type;
    using type = decltype(settled<First>{} + built<residual<branch, shortcut>>{} + settled<join + 1>{});
  };

  static constexpr auto input_layout = layout<0>;
  static constexpr auto output_layout =
      layout_of_edge<axes>(Steps::steps.at[Steps::loss].in.taken[choice<Steps::loss>.choice]);
  template <class Model>
  using pieces_of = typename piece<bare<Model>, Steps::extents, false, 1, 0>::type;
  static constexpr bool has_word_at_end = !(output_layout == dual(layout<Steps::loss>));
  using word_at_end = word_if<has_word_at_end, mesh, output_layout>;
};

}  // namespace tessera::detail
