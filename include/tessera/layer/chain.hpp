#pragma once

#include <tessera/layer/node.hpp>

namespace tessera {

/// Layers in order. A model is usually a named struct that inherits from a chain:
///
///     struct mlp : tessera::chain<tessera::linear<8, 16>, tessera::relu_layer, tessera::linear<16, 4>> {};
///
/// Where the layouts of neighbours differ, the route between them is inserted while compiling. A layout word among the
/// layers (`shard<0, dp>`) brings the value to that layout.
template <class... Layers>
struct chain {
  static_assert(sizeof...(Layers) > 0, "tessera: a chain needs at least one layer");
  using composition = chain;
  using layers = type_list<Layers...>;
  static constexpr int count = static_cast<int>(sizeof...(Layers));
};

struct unnumbered;  // layer/relayout.hpp

namespace detail {
/// Frees what an argument that was moved in holds; `X` is its type as a forwarding reference has it.
template <class X>
void let_go(std::remove_reference_t<X>& x) {
  if constexpr (!std::is_reference_v<X>) {
    [[maybe_unused]] const X last(std::move(x));
  }
}
/// The elements of the input of the first layer of a bound chain that does more than change a layout.
template <class Bound, class T, int I>
constexpr auto first_element() {
  using element = typename Bound::template at<I>::template input_element<T>;
  if constexpr (std::is_void_v<element> && I + 1 < Bound::count)
    return first_element<Bound, T, I + 1>();
  else
    return std::type_identity<element>{};
}
}  // namespace detail

template <class Chain, device_mesh Mesh, class Flow>
struct bound_chain {
  using mesh = Mesh;
  using input = Flow;
  using layout_value = placements<Mesh::axes>;
  static constexpr int count = Chain::count;

 private:
  // The edges are memoised one by one, so no list of types grows with the depth.
  template <int I, class = void>
  struct edge {
    using type = typename edge<I - 1>::bound::output;
    using bound = tessera::bind<type_at<I, typename Chain::layers>, Mesh, type>;
  };
  template <class Dummy>
  struct edge<0, Dummy> {
    using type = Flow;
    using bound = tessera::bind<type_at<0, typename Chain::layers>, Mesh, type>;
  };

 public:
  /// Layer `I` in its place.
  template <int I>
  using at = typename edge<I>::bound;
  using output = typename at<count - 1>::output;

  static constexpr bool only_layout = false;
  /// Whether layers have numbers in the names of parameters.
  static constexpr bool numbered = !std::is_same_v<type_at<0, typename Chain::layers>, unnumbered>;

  /// The elements of the input, as the first layer that computes takes them.
  template <class T>
  using input_element = typename decltype(detail::first_element<bound_chain, T, 0>())::type;

  /// Whether any of the first `I` layers learns, so that layer `I` must hand its input's gradient on.
  template <int I>
  static constexpr bool learns_before = []<int... J>(std::integer_sequence<int, J...>) {
    return (false || ... || at<J>::learns);
  }
  (std::make_integer_sequence<int, I>{});
  static constexpr bool learns = learns_before<count>;

  /// The layout of the gradient of layer `I`'s input, when that of the chain's output is `arriving`.
  template <int I>
  static constexpr layout_value gradient_before(layout_value arriving) {
    [&]<int... J>(std::integer_sequence<int, J...>) { ((arriving = at<count - 1 - J>::gradient(arriving)), ...); }
    (std::make_integer_sequence<int, count - I>{});
    return arriving;
  }
  static constexpr layout_value gradient(layout_value const& arriving) { return gradient_before<0>(arriving); }

  static constexpr void append_parameters(std::vector<parameter_info<Mesh::axes>>& list) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (at<I>::append_parameters(list), ...); }
    (sequence{});
  }
  static constexpr void append_forward(call_list<Mesh::axes>& calls) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (at<I>::append_forward(calls), ...); }
    (sequence{});
  }
  static constexpr void append_backward(call_list<Mesh::axes>& calls, layout_value arriving, bool wants_input) {
    const auto one = [&]<int I>(std::integral_constant<int, I>) {
      // Nothing runs before the first layer that learns.
      if (!wants_input && !learns_before<I + 1>) return;
      at<I>::append_backward(calls, arriving, wants_input || learns_before<I>);
      arriving = at<I>::gradient(arriving);
    };
    [&]<int... I>(std::integer_sequence<int, I...>) { (one(std::integral_constant<int, count - 1 - I>{}), ...); }
    (sequence{});
  }

 private:
  using sequence = std::make_integer_sequence<int, count>;
};

template <class Bound, class T, context Context>
class chain_node {
  static constexpr int count = Bound::count;
  template <int I>
  using child = node_of<typename Bound::template at<I>, T, Context>;
  template <int I>
  struct leaf {
    child<I> node;
  };
  template <class Sequence>
  struct leaves;
  template <int... I>
  struct leaves<std::integer_sequence<int, I...>> : leaf<I>... {};

 public:
  template <sharded_tensor X>
  auto forward(X const& x, bool training) {
    return forward_from<0>(x, training);
  }
  template <bool WantsInput, sharded_tensor Dy, class Ready>
  auto backward(Dy const& dy, Ready& ready) {
    return backward_from<count - 1, WantsInput>(dy, ready);
  }
  /// `place` is that of the first layer: not 0 where these are the later layers of a longer chain.
  template <class F>
  void visit(std::string& path, F& f, int place = 0) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (visit_child<I>(path, f, place), ...); }
    (sequence{});
  }
  template <class F>
  void visit_saved(F& f) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (at<I>().visit_saved(f), ...); }
    (sequence{});
  }
  int number(int first, parameter_gate* gate = nullptr) {
    [&]<int... I>(std::integer_sequence<int, I...>) { ((first = at<I>().number(first, gate)), ...); }
    (sequence{});
    return first;
  }
  /// The node of layer `I`.
  template <int I>
  child<I>& at() {
    return static_cast<leaf<I>&>(leaves_).node;
  }

 private:
  using sequence = std::make_integer_sequence<int, count>;

  /// Layout words have no place of their own: parameters have the same names, and so the same first values, under every
  /// split.
  template <int I, class F>
  void visit_child(std::string& path, F& f, int& place) {
    if constexpr (Bound::template at<I>::only_layout) {
    } else if constexpr (!Bound::numbered) {
      at<I>().visit(path, f);
    } else {
      const path_entry child(path, place++);
      at<I>().visit(path, f);
    }
  }
  // A value between two layers lives no longer than the second one runs: not until the whole chain has run.
  template <int I, class X>
  auto forward_from(X&& x, bool training) {
    auto y = at<I>().forward(std::as_const(x), training);
    detail::let_go<X>(x);
    if constexpr (I == count - 1)
      return y;
    else
      return forward_from<I + 1>(std::move(y), training);
  }
  template <int I, bool WantsInput, class Dy, class Ready>
  auto backward_from(Dy&& dy, Ready& ready) {
    constexpr bool wants = WantsInput || Bound::template learns_before<I>;
    auto dx = at<I>().template backward<wants>(std::as_const(dy), ready);
    detail::let_go<Dy>(dy);
    if constexpr (I > 0 && wants)
      return backward_from<I - 1, WantsInput>(std::move(dx), ready);
    else
      return dx;
  }

  leaves<sequence> leaves_;
};

namespace detail {
template <class... Layers, class Mesh, class Flow>
struct bind<chain<Layers...>, Mesh, Flow> {
  using type = bound_chain<chain<Layers...>, Mesh, Flow>;
};
template <class Chain, class Mesh, class Flow, class T, class Context>
struct node_of<bound_chain<Chain, Mesh, Flow>, T, Context> {
  using type = chain_node<bound_chain<Chain, Mesh, Flow>, T, Context>;
};
}  // namespace detail

}  // namespace tessera
