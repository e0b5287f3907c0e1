#pragma once

#include <tessera/backend/transfer.hpp>
#include <tessera/layer/chain.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace tessera {

/// A layer of any kind, usually a block, that keeps nothing of forward but its input: backward computes the rest again
/// (T. Chen, B. Xu, C. Zhang and C. Guestrin, "Training deep nets with sublinear memory cost", 2016; MindSpore's
/// `recompute`).
///
///     struct deep : tessera::chain<tessera::recompute<block>, tessera::recompute<block>, head> {};
///
/// Values and gradients have the same bits as without, also where the block draws random numbers, and running
/// statistics move once. The collectives of the block's forward run a second time in backward, which the list of
/// collectives shows. Parameters keep their names.
template <class Layer>
struct recompute {
  using composition = recompute;
};

template <class Layer, device_mesh Mesh, class Flow>
struct bound_recompute : tessera::bind<Layer, Mesh, Flow> {
  using inner = tessera::bind<Layer, Mesh, Flow>;
  using typename inner::layout_value;

  static constexpr void append_backward(call_list<Mesh::axes>& calls, layout_value const& arriving, bool wants_input) {
    if (!wants_input && !inner::learns) return;
    const auto before = calls.size();
    inner::append_forward(calls);
    for (auto i = before; i < calls.size(); ++i) calls[i].when = phase::backward;
    inner::append_backward(calls, arriving, wants_input);
  }
};

template <class Bound, class T, context Context>
class recompute_node {
  using inner = typename Bound::inner;
  using input_type =
      edge_tensor<typename inner::template input_element<T>, Context, Bound::input::rank, Bound::input::layout>;

  using state_values = tensor<T, 1, typename Context::backend::memory>;

  /// What backward needs: the input, and the states that forward found (running statistics, numbers of draws).
  struct kept {
    std::optional<input_type> x{};
    std::vector<state_values> states{};
  };

 public:
  template <sharded_tensor X>
  auto forward(X const& x, bool training) {
    if (!training) return node_.forward(x, false);
    kept_.states.clear();
    each_state([this](auto& kernels, auto const& values) { kept_.states.push_back(detail::copied(kernels, values)); });
    auto y = node_.forward(x, true);
    kept_.x = x;
    drop();
    return y;
  }

  template <bool WantsInput, sharded_tensor Dy, class Ready>
  auto backward(Dy const& dy, Ready& ready) {
    if constexpr (WantsInput || Bound::learns) {
      exchange_states();
      node_.forward(*kept_.x, true);
      exchange_states();
    }
    kept_ = {};
    return node_.template backward<WantsInput>(dy, ready);
  }

  template <class F>
  void visit(std::string& path, F& f) {
    node_.visit(path, f);
  }
  template <class F>
  void visit_saved(F& f) {
    f(kept_);
    node_.visit_saved(f);
  }
  int number(int first, parameter_gate* gate = nullptr) { return node_.number(first, gate); }

 private:
  /// Calls `f(kernels, values)` with this rank's part of each state.
  template <class F>
  void each_state(F f) {
    const auto one = [&f](std::string const&, auto kind, auto const&, auto& value, auto&) {
      if constexpr (!decltype(kind)::trainable)
        f(value.where().kernels(), state_values(value.local().part(0, shape<1>{{value.local().size()}})));
    };
    std::string path;
    node_.visit(path, one);
  }
  /// Puts the states that forward found in place of those of now, or back. What the second pass makes of them is not
  /// kept: it made the same of them in the first.
  void exchange_states() {
    std::size_t i = 0;
    each_state([&](auto& kernels, auto values) {
      auto& other = kept_.states[i++];
      auto now = detail::copied(kernels, values);
      kernels.copy(other.read(), values.view());
      other = std::move(now);
    });
  }
  void drop() {
    const auto forget = [](auto& saved) { saved = {}; };
    node_.visit_saved(forget);
  }

  node_of<inner, T, Context> node_;
  kept kept_{};
};

namespace detail {
template <class Layer, class Mesh, class Flow>
struct bind<recompute<Layer>, Mesh, Flow> {
  using type = bound_recompute<Layer, Mesh, Flow>;
};
template <class Layer, class Mesh, class Flow, class T, class Context>
struct node_of<bound_recompute<Layer, Mesh, Flow>, T, Context> {
  using type = recompute_node<bound_recompute<Layer, Mesh, Flow>, T, Context>;
};
}  // namespace detail

}  // namespace tessera
