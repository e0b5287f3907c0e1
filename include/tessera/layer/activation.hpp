#pragma once

#include <tessera/layer/elementwise.hpp>
#include <tessera/op/activation.hpp>

namespace tessera {

namespace detail {

template <gelu_form Form>
struct gelu_layer : elementwise_layer {
  static constexpr kernel_kind kernels = kernel_kind::function;
  static constexpr kept_memory keeps{.input = true};
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.value = x;
    return op::gelu<Form>(x);
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::gelu_backward<Form>(saved.value, dy);
  }
};

}  // namespace detail

// Every cut flows through these layers; a partial input is reduced first; a partial gradient may pass. No collectives.

/// x Phi(x) with the normal distribution function Phi: `gelu` exactly, `gelu_tanh` by the tanh approximation.
struct gelu : detail::gelu_layer<gelu_form::exact> {};
struct gelu_tanh : detail::gelu_layer<gelu_form::tanh_approximation> {};

/// x sigmoid(x).
struct silu : detail::elementwise_layer {
  static constexpr kernel_kind kernels = kernel_kind::function;
  static constexpr kept_memory keeps{.input = true};
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.value = x;
    return op::silu(x);
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::silu_backward(saved.value, dy);
  }
};

/// 1 / (1 + exp(-x)).
struct sigmoid : detail::elementwise_layer {
  static constexpr kernel_kind kernels = kernel_kind::function;
  static constexpr kept_memory keeps{.output = true};
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.value = op::sigmoid(x);
    return saved.value;
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::sigmoid_backward(saved.value, dy);
  }
};

/// Hyperbolic tangent. Not named `tanh`, which <math.h> puts where `using namespace tessera` would make it ambiguous.
struct tanh_layer : detail::elementwise_layer {
  static constexpr kernel_kind kernels = kernel_kind::function;
  static constexpr kept_memory keeps{.output = true};
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.value = op::tanh(x);
    return saved.value;
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::tanh_backward(saved.value, dy);
  }
};

}  // namespace tessera
