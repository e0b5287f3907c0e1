#pragma once

#include <tessera/layer/recompute.hpp>
#include <tessera/plan/layer_cost.hpp>
#include <tessera/plan/machine.hpp>

#include <vector>

namespace tessera {

/// A part of backward, in order of definition: what it does, and how many trainable parameters have a gradient after
/// it.
struct backward_part {
  layer_work work{};
  int parameters = 0;
};

namespace detail {

template <class Bound>
struct backward_parts;

template <auto Target, class Mesh, class Flow>
struct backward_parts<bound_relayout<Target, Mesh, Flow>> {
  static constexpr void append(std::vector<backward_part>&, index_t, bool) {}
};

// The layer's forward pass comes once more before its backward.
template <class Layer, class Mesh, class Flow>
struct backward_parts<bound_recompute<Layer, Mesh, Flow>> {
  using inner = typename bound_recompute<Layer, Mesh, Flow>::inner;
  static constexpr void append(std::vector<backward_part>& list, index_t unknown, bool wants_input) {
    backward_parts<inner>::append(list, unknown, wants_input);
    list.push_back({forward_work<inner>(unknown), 0});
  }
};

template <class Chain, class Mesh, class Flow>
struct backward_parts<bound_chain<Chain, Mesh, Flow>> {
  using bound = bound_chain<Chain, Mesh, Flow>;
  static constexpr void append(std::vector<backward_part>& list, index_t unknown, bool wants_input) {
    const auto one = [&]<int I>(std::integral_constant<int, I>) {
      if (wants_input || bound::template learns_before<I + 1>)
        backward_parts<typename bound::template at<I>>::append(list, unknown,
                                                               wants_input || bound::template learns_before<I>);
    };
    [&]<int... I>(std::integer_sequence<int, I...>) { (one(std::integral_constant<int, I>{}), ...); }
    (std::make_integer_sequence<int, bound::count>{});
  }
};

template <class Branch, class Shortcut, class Mesh, class Flow>
struct backward_parts<bound_residual<Branch, Shortcut, Mesh, Flow>> {
  using bound = bound_residual<Branch, Shortcut, Mesh, Flow>;
  static constexpr void append(std::vector<backward_part>& list, index_t unknown, bool wants_input) {
    if (wants_input || bound::branch::learns)
      backward_parts<typename bound::branch>::append(list, unknown, wants_input);
    if constexpr (!bound::plain)
      if (wants_input || bound::shortcut_learns)
        backward_parts<typename bound::shortcut>::append(list, unknown, wants_input);
    if (wants_input) list.push_back({work_of<bound>::sum(unknown), 0});
  }
};

template <class Layer, class Mesh, class Flow>
struct backward_parts<bound_layer<Layer, Mesh, Flow>> {
  using bound = bound_layer<Layer, Mesh, Flow>;
  template <class... P>
  static constexpr int trainable(parameter_list<P...> const*) {
    return (0 + ... + int{P::trainable});
  }
  static constexpr void append(std::vector<backward_part>& list, index_t unknown, bool wants_input) {
    list.push_back({backward_work<bound>(wants_input, unknown),
                    trainable(static_cast<typename bound::parameters const*>(nullptr))});
  }
};

}  // namespace detail

/// When the gradients of a bound model's trainable parameters exist on a machine, by the position of the parameter: in
/// picoseconds from the beginning of backward, for elements of `element_bytes`. Extents that only run time knows count
/// as `unknown`. Kernels take the time that `machine_description::seconds` says, those of a layer's backward being
/// taken for alike; messages of backward itself are not counted.
template <class Bound, computing_machine Machine>
constexpr std::vector<index_t> gradient_times(index_t element_bytes, index_t unknown) {
  constexpr machine_description machine = description_of<Machine>;
  std::vector<backward_part> parts;
  detail::backward_parts<Bound>::append(parts, unknown, false);
  std::size_t position = 0;
  for (auto const& part : parts) position += static_cast<std::size_t>(part.parameters);
  std::vector<index_t> times(position, 0);
  double now = 0;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (const int kernels = part->work.kernels; kernels > 0)
      now +=
          kernels * machine.seconds(part->work.flops / kernels,
                                    part->work.elements * static_cast<double>(element_bytes) / kernels, element_bytes);
    for (int i = 0; i < part->parameters; ++i) times[--position] = static_cast<index_t>(now * 1e12);
  }
  return times;
}

}  // namespace tessera
