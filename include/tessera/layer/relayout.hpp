#pragma once

#include <tessera/layer/node.hpp>

namespace tessera {

/// A layer that makes its input whole along these axes and leaves the others as they are; without axes it does nothing.
template <mesh_axis... Axes>
struct whole_along {
  template <device_mesh Mesh>
  static constexpr auto target(placements<Mesh::axes> layout) {
    ((layout[Mesh::template index_of<Axes>] = replicated_placement()), ...);
    return layout.normalized();
  }
};

/// A layer that cuts dimension `Dim` of its input by these axes, after those that cut it already, and leaves the other axes
/// as they are; without axes it does nothing. (A layout word, as `shard<Dim, Axes...>`, says what all axes do.)
template <int Dim, mesh_axis... Axes>
struct cut_along {
  static_assert(Dim >= 0, "tessera: cut_along names a dimension; dimensions count from 0");
  template <device_mesh Mesh>
  static constexpr auto target(placements<Mesh::axes> layout) {
    int order = 16;
    ((layout[Mesh::template index_of<Axes>] = shard_placement(Dim, order++)), ...);
    return layout.normalized();
  }
};

/// The first word of a chain whose one layer has the place of the chain in the names of parameters, as if the chain's
/// layout words were not there. It changes nothing else.
struct unnumbered {};

/// A layer that brings its input to another layout, and the gradient back.
template <auto Target, device_mesh Mesh, class Flow>
struct bound_relayout {
  using mesh = Mesh;
  using input = Flow;
  using layout_value = placements<Mesh::axes>;
  static constexpr layout_value target = Target;
  static_assert(target.last_cut_dim() < Flow::rank,
                "tessera: this layout cuts a dimension that the tensor does not have; name a dimension below its rank");
  static_assert(check_reach<Flow::layout, target>());
  using output = flow<Flow::extents, target>;
  /// Any elements: those of the next layer's input.
  template <class T>
  using input_element = void;
  static constexpr bool learns = false;
  static constexpr bool only_layout = true;

  static constexpr layout_value gradient(layout_value const& arriving) { return gradient_for(Flow::layout, arriving); }
  static constexpr void append_parameters(std::vector<parameter_info<Mesh::axes>>&) {}
  static constexpr void append_forward(call_list<Mesh::axes>& calls) {
    append_route<Mesh>(calls, phase::forward, Flow::extents, Flow::layout, target);
  }
  static constexpr void append_backward(call_list<Mesh::axes>& calls, layout_value const& arriving, bool wants_input) {
    if (wants_input) append_route<Mesh>(calls, phase::backward, Flow::extents, arriving, gradient(arriving));
  }
};

template <class Bound, class T, context Context>
class relayout_node {
  using mesh = typename Context::mesh;

 public:
  template <sharded_tensor X>
  auto forward(X const& x, bool) {
    return redistribute<layout_of<mesh, Bound::target>>(x);
  }
  template <bool WantsInput, sharded_tensor Dy, class Ready>
  auto backward(Dy const& dy, Ready&) {
    if constexpr (WantsInput)
      return redistribute<layout_of<mesh, Bound::gradient(Dy::placements)>>(dy);
    else
      return no_gradient{};
  }
  template <class F>
  void visit(std::string&, F&) {}
  template <class F>
  void visit_saved(F&) {}
  int number(int first, parameter_gate* = nullptr) { return first; }
};

namespace detail {
template <layout_word Layout, class Mesh, class Flow>
struct bind<Layout, Mesh, Flow> {
  using type = bound_relayout<placements_of<Mesh, Layout>, Mesh, Flow>;
};
template <class... Axes, class Mesh, class Flow>
struct bind<whole_along<Axes...>, Mesh, Flow> {
  using type = bound_relayout<whole_along<Axes...>::template target<Mesh>(Flow::layout), Mesh, Flow>;
};
template <class Mesh, class Flow>
struct bind<unnumbered, Mesh, Flow> {
  using type = bound_relayout<Flow::layout, Mesh, Flow>;
};
template <int Dim, class... Axes, class Mesh, class Flow>
struct bind<cut_along<Dim, Axes...>, Mesh, Flow> {
  using type = bound_relayout<cut_along<Dim, Axes...>::template target<Mesh>(Flow::layout), Mesh, Flow>;
};
template <auto Target, class Mesh, class Flow, class T, class Context>
struct node_of<bound_relayout<Target, Mesh, Flow>, T, Context> {
  using type = relayout_node<bound_relayout<Target, Mesh, Flow>, T, Context>;
};
}  // namespace detail

}  // namespace tessera
