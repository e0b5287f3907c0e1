#pragma once

#include <tessera/op/elementwise.hpp>

namespace tessera {

/// The two forms of the Gaussian error linear unit.
enum class gelu_form : std::uint8_t {
  exact = 1,          ///< x Phi(x) with the normal distribution function Phi
  tanh_approximation  ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};

namespace op {

// Smooth functions of each element. Any cut passes through; a partial sum does not compile, a partial gradient does.
// NaN stays NaN, infinities give the limits.

/// Gaussian error linear unit (D. Hendrycks and K. Gimpel, arXiv:1606.08415, 2016).
template <gelu_form Form = gelu_form::exact, sharded_tensor X>
auto gelu(X const& x) {
  return detail::each_element(x, [](auto& kernels, auto from, auto to) {
    if constexpr (Form == gelu_form::exact)
      kernels.gelu_forward(from, to);
    else
      kernels.gelu_tanh_forward(from, to);
  });
}
/// Gradient of `gelu` from its input.
template <gelu_form Form = gelu_form::exact, sharded_tensor X, sharded_tensor Dy>
auto gelu_backward(X const& x, Dy const& dy) {
  return detail::each_element_backward(x, dy, "gelu_backward", [](auto& kernels, auto at, auto up, auto to) {
    if constexpr (Form == gelu_form::exact)
      kernels.gelu_backward(at, up, to);
    else
      kernels.gelu_tanh_backward(at, up, to);
  });
}

/// x sigmoid(x) (S. Elfwing, E. Uchibe and K. Doya, Neural Networks 107, 2018).
template <sharded_tensor X>
auto silu(X const& x) {
  return detail::each_element(x, [](auto& kernels, auto from, auto to) { kernels.silu_forward(from, to); });
}
/// Gradient of `silu` from its input.
template <sharded_tensor X, sharded_tensor Dy>
auto silu_backward(X const& x, Dy const& dy) {
  return detail::each_element_backward(
      x, dy, "silu_backward", [](auto& kernels, auto at, auto up, auto to) { kernels.silu_backward(at, up, to); });
}

/// 1 / (1 + exp(-x)).
template <sharded_tensor X>
auto sigmoid(X const& x) {
  return detail::each_element(x, [](auto& kernels, auto from, auto to) { kernels.sigmoid_forward(from, to); });
}
/// Gradient of `sigmoid` from its output: dy y (1 - y).
template <sharded_tensor Y, sharded_tensor Dy>
auto sigmoid_backward(Y const& y, Dy const& dy) {
  return detail::each_element_backward(y, dy, "sigmoid_backward", [](auto& kernels, auto at, auto up, auto to) {
    kernels.sigmoid_backward(at, up, to);
  });
}

/// Hyperbolic tangent.
template <sharded_tensor X>
auto tanh(X const& x) {
  return detail::each_element(x, [](auto& kernels, auto from, auto to) { kernels.tanh_forward(from, to); });
}
/// Gradient of `tanh` from its output: dy (1 - y^2).
template <sharded_tensor Y, sharded_tensor Dy>
auto tanh_backward(Y const& y, Dy const& dy) {
  return detail::each_element_backward(
      y, dy, "tanh_backward", [](auto& kernels, auto at, auto up, auto to) { kernels.tanh_backward(at, up, to); });
}

}  // namespace op

}  // namespace tessera
