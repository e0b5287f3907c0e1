#pragma once

#include <tessera/layer/concept.hpp>
#include <tessera/layer/flow.hpp>
#include <tessera/layer/resolve.hpp>
#include <tessera/redistribute/call.hpp>

#include <vector>

namespace tessera {

namespace detail {

template <bool Known>
struct generic_split_check {
  static_assert(Known,
                "tessera: this layer has no such split; its rules list the words it has, name one of those or add the "
                "cut to the rules");
};
template <class Layer, class T>
struct input_element_of {
  using type = T;
};
template <class Layer, class T>
requires requires { typename Layer::input_element; }
struct input_element_of<Layer, T> {
  using type = typename Layer::input_element;
};
template <class... P>
constexpr bool any_trainable(parameter_list<P...> const*) {
  return (P::trainable || ...);
}
template <class Layer, bool Known>
constexpr bool check_split() {
  if constexpr (requires { typename Layer::template split_check<true>; })
    return sizeof(typename Layer::template split_check<Known>) > 0;
  else
    return sizeof(generic_split_check<Known>) > 0;
}

/// Whether the rules have a letter for each dimension of the input, the parameters and the result.
template <class... P>
constexpr bool letters_fit(index_rules const& rules, int input, int output, parameter_list<P...> const*) {
  int operand = 1;
  bool fit = static_cast<int>(rules.operand(0).size()) == input && static_cast<int>(rules.result().size()) == output;
  ((fit = fit && static_cast<int>(rules.operand(operand++).size()) == P::extents.rank), ...);
  return fit && operand > 0;
}

}  // namespace detail

/// A layer on a mesh with a given input: layouts of everything, and the collectives that follow. All static.
///
/// `bind<Layer, Mesh, Flow>` names it for every kind of layer, `chain` and `residual` included; all have the members
/// `output`, `learns`, `only_layout`, `gradient`, `append_parameters`, `append_forward` and `append_backward`.
template <class Layer, device_mesh Mesh, class Flow>
struct bound_layer {
  using layer = Layer;
  using mesh = Mesh;
  using input = Flow;
  using layout_value = placements<Mesh::axes>;

  static_assert(
      registered_layer<Layer, Flow::extents>,
      "tessera: this is no layer: it lacks the members `words`, `parameters` or `rules`; name a layer, or see "
      "layer/concept.hpp for what a layer of your own needs");
  static constexpr index_rules rules = Layer::template rules<Flow::extents>();
  static constexpr auto output_extents = Layer::template output<Flow::extents>();
  using parameters = typename Layer::parameters;
  static_assert(rules.operands() == 1 + parameters::count,
                "tessera: the rules of this layer have another number of operands than the input and its parameters; "
                "write one for each");
  static_assert(detail::letters_fit(rules, Flow::rank, output_extents.rank, static_cast<parameters const*>(nullptr)),
                "tessera: the rules of this layer give an operand another number of letters than it has dimensions; "
                "write one letter for each");
  static constexpr auto named = detail::cuts_named_by<Mesh>(typename Layer::words{});
  static_assert(named.distinct,
                "tessera: the split words of this layer use a mesh axis twice; an axis cuts one thing of a layer");
  static constexpr bool known = detail::words_known<Mesh>(rules, named);
  static_assert(detail::check_split<Layer, known>());
  static_assert(
      !known || detail::words_divide<Mesh>(rules, named),
      "tessera: a split word cuts groups unevenly; choose a number of parts that divides the number of groups");
  static constexpr resolved_layer<Mesh::axes> resolved =
      known ? detail::resolve<Mesh>(rules, Flow::layout, named) : resolved_layer<Mesh::axes>{};

  using output = flow<output_extents, resolved.output>;

  /// The elements of the input in a model of elements T: T, unless the layer says otherwise (indices).
  template <class T>
  using input_element = typename detail::input_element_of<Layer, T>::type;

  /// Whether this is a layout word of a chain, which computes nothing.
  static constexpr bool only_layout = false;
  /// Whether there is anything to train, so that backward must come this far.
  static constexpr bool learns = detail::any_trainable(static_cast<parameters const*>(nullptr));

  /// Whether backward is linear in the gradient alone, so that a partial gradient may pass and be reduced later.
  static constexpr bool passes_partial = requires { requires Layer::gradient_is_linear; };

  /// The layout that backward needs of the output's gradient when it arrives as `arriving`.
  static constexpr layout_value needed(layout_value const& arriving) {
    layout_value out = dual(resolved.output);
    for (int a = 0; a < Mesh::axes; ++a)
      if (passes_partial && resolved.output[a].is_replicated() && arriving[a].is_partial()) out[a] = arriving[a];
    return out;
  }
  /// The layout of the input gradient as backward leaves it.
  static constexpr layout_value produced(layout_value const& arriving) {
    layout_value out = resolved.gradient[0];
    for (int a = 0; a < Mesh::axes; ++a)
      if (passes_partial && resolved.output[a].is_replicated() && arriving[a].is_partial()) out[a] = arriving[a];
    return out;
  }
  /// The layout in which the input's gradient is handed on.
  static constexpr layout_value gradient(layout_value const& arriving) {
    return gradient_for(Flow::layout, produced(arriving));
  }

  static constexpr void append_parameters(std::vector<parameter_info<Mesh::axes>>& list) {
    append(list, static_cast<parameters const*>(nullptr));
  }
  static constexpr void append_forward(call_list<Mesh::axes>& calls) {
    append_route<Mesh>(calls, phase::forward, Flow::extents, Flow::layout, resolved.operand[0]);
    if constexpr (requires { Layer::template calls<Flow::extents, Mesh>(phase::forward, resolved, calls); })
      Layer::template calls<Flow::extents, Mesh>(phase::forward, resolved, calls);
  }
  static constexpr void append_backward(call_list<Mesh::axes>& calls, layout_value const& arriving, bool wants_input) {
    if (!wants_input && !learns) return;
    append_route<Mesh>(calls, phase::backward, output_extents, arriving, needed(arriving));
    if constexpr (requires { Layer::template calls<Flow::extents, Mesh>(phase::backward, resolved, calls); })
      Layer::template calls<Flow::extents, Mesh>(phase::backward, resolved, calls);
    if constexpr (requires { Layer::template input_gradient_calls<Flow::extents, Mesh>(resolved, calls); })
      if (wants_input) Layer::template input_gradient_calls<Flow::extents, Mesh>(resolved, calls);
    if (wants_input) append_route<Mesh>(calls, phase::backward, Flow::extents, produced(arriving), gradient(arriving));
  }

 private:
  template <class... P>
  static constexpr void append(std::vector<parameter_info<Mesh::axes>>& list, parameter_list<P...> const*) {
    int operand = 0;
    (void)operand;
    ((++operand, list.push_back(describe_parameter(P::name, P::extents, resolved.operand[operand],
                                                   resolved.gradient[operand], P::trainable, tie_of<typename P::tie>))),
     ...);
  }
};

namespace detail {
template <class Layer, class Mesh, class Flow>
struct bind {
  using type = bound_layer<Layer, Mesh, Flow>;
};
// A model that inherits from a chain or residual is bound as that.
template <class Layer, class Mesh, class Flow>
requires requires {
  typename Layer::composition;
} &&(!std::is_same_v<typename Layer::composition, Layer>)struct bind<Layer, Mesh, Flow>
    : bind<typename Layer::composition, Mesh, Flow> {
};
}  // namespace detail

/// A layer of any kind on a mesh with a given input.
template <class Layer, device_mesh Mesh, class Flow>
using bind = typename detail::bind<Layer, Mesh, Flow>::type;

}  // namespace tessera
