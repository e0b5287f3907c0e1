#pragma once

#include <tessera/layer/elementwise.hpp>
#include <tessera/op/elementwise.hpp>

namespace tessera {

/// max(x, 0). Every cut flows through; a partial input is reduced first; a partial gradient may pass. No collectives.
struct relu : detail::elementwise_layer {
  static constexpr kept_memory keeps{.output = true};
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.value = op::relu(x);
    return saved.value;
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::relu_backward(saved.value, dy);
  }
};

}  // namespace tessera
