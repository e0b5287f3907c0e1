#pragma once

#include <tessera/layer/recompute.hpp>
#include <tessera/layer/residual.hpp>

#include <vector>

namespace tessera {

/// The trainable parameters of a layer: positions in the list of all.
struct layer_parameters {
  int first = 0;
  int count = 0;
};

namespace detail {

template <class Bound>
constexpr int trainable_count() {
  std::vector<parameter_info<Bound::mesh::axes>> list;
  Bound::append_parameters(list);
  int count = 0;
  for (auto const& p : list) count += p.trainable;
  return count;
}

/// In which order passes come to the layers of a bound model that have trainable parameters. Forward counts positions
/// up from `next`, backward down from `end`.
template <class Bound>
struct pass_order {
  static constexpr int count = trainable_count<Bound>();
  static constexpr void forward(std::vector<layer_parameters>& order, int& next) {
    if (count > 0) order.push_back({next, count});
    next += count;
  }
  static constexpr void backward(std::vector<layer_parameters>& order, int& end) {
    end -= count;
    if (count > 0) order.push_back({end, count});
  }
};

template <class Chain, class Mesh, class Flow>
struct pass_order<bound_chain<Chain, Mesh, Flow>> {
  using bound = bound_chain<Chain, Mesh, Flow>;
  static constexpr void forward(std::vector<layer_parameters>& order, int& next) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (pass_order<typename bound::template at<I>>::forward(order, next), ...);
    }
    (std::make_integer_sequence<int, bound::count>{});
  }
  static constexpr void backward(std::vector<layer_parameters>& order, int& end) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (pass_order<typename bound::template at<bound::count - 1 - I>>::backward(order, end), ...);
    }
    (std::make_integer_sequence<int, bound::count>{});
  }
};

template <class Branch, class Shortcut, class Mesh, class Flow>
struct pass_order<bound_residual<Branch, Shortcut, Mesh, Flow>> {
  using bound = bound_residual<Branch, Shortcut, Mesh, Flow>;
  static constexpr void forward(std::vector<layer_parameters>& order, int& next) {
    pass_order<typename bound::branch>::forward(order, next);
    if constexpr (!bound::plain) pass_order<typename bound::shortcut>::forward(order, next);
  }
  static constexpr void backward(std::vector<layer_parameters>& order, int& end) {
    if constexpr (!bound::plain) pass_order<typename bound::shortcut>::backward(order, end);
    pass_order<typename bound::branch>::backward(order, end);
  }
};

// Forward runs once more before backward.
template <class Layer, class Mesh, class Flow>
struct pass_order<bound_recompute<Layer, Mesh, Flow>> {
  using inner = typename bound_recompute<Layer, Mesh, Flow>::inner;
  static constexpr void forward(std::vector<layer_parameters>& order, int& next) {
    pass_order<inner>::forward(order, next);
  }
  static constexpr void backward(std::vector<layer_parameters>& order, int& end) {
    int next = end - trainable_count<inner>();
    pass_order<inner>::forward(order, next);
    pass_order<inner>::backward(order, end);
  }
};

}  // namespace detail

}  // namespace tessera
