#pragma once

#include <tessera/backend/eigen/activation.hpp>
#include <tessera/backend/eigen/broadcast.hpp>
#include <tessera/backend/eigen/elementwise.hpp>

namespace tessera::detail {

/// Quotients, differences of repeated operands and smooth activations, as members of `eigen`.
///
/// Flat kernels work in place where blocks are the same. NaN stays NaN; infinities give the limits of the functions.
class elementwise_members {
 public:
  /// y = a / b.
  template <class T>
  void div(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
    eigen_kernels::div<T>(a, b, y);
  }
  /// y = a - b, dimensions of extent 1 repeated. In place only where the operand is not repeated.
  template <class T>
  void sub_broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y) {
    eigen_kernels::broadcast<T>(a, b, y, [](auto const& p, auto const& q) { return Eigen::internal::psub(p, q); });
  }
  /// y = a / b, likewise.
  template <class T>
  void div_broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y) {
    eigen_kernels::broadcast<T>(a, b, y, [](auto const& p, auto const& q) { return Eigen::internal::pdiv(p, q); });
  }

  /// y = x Phi(x), Phi the normal distribution function.
  template <class T>
  void gelu_forward(operand<T, 1> x, block<T, 1> y) {
    eigen_kernels::activation_forward<eigen_kernels::gelu_function, T>(x, y);
  }
  /// dx = dy (Phi(x) + x Phi'(x)).
  template <class T>
  void gelu_backward(operand<T, 1> x, operand<T, 1> dy, block<T, 1> dx) {
    eigen_kernels::activation_backward<eigen_kernels::gelu_function, T>(x, dy, dx);
  }
  /// y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
  template <class T>
  void gelu_tanh_forward(operand<T, 1> x, block<T, 1> y) {
    eigen_kernels::activation_forward<eigen_kernels::gelu_tanh_function, T>(x, y);
  }
  template <class T>
  void gelu_tanh_backward(operand<T, 1> x, operand<T, 1> dy, block<T, 1> dx) {
    eigen_kernels::activation_backward<eigen_kernels::gelu_tanh_function, T>(x, dy, dx);
  }
  /// y = x / (1 + exp(-x)).
  template <class T>
  void silu_forward(operand<T, 1> x, block<T, 1> y) {
    eigen_kernels::activation_forward<eigen_kernels::silu_function, T>(x, y);
  }
  template <class T>
  void silu_backward(operand<T, 1> x, operand<T, 1> dy, block<T, 1> dx) {
    eigen_kernels::activation_backward<eigen_kernels::silu_function, T>(x, dy, dx);
  }
  /// y = 1 / (1 + exp(-x)).
  template <class T>
  void sigmoid_forward(operand<T, 1> x, block<T, 1> y) {
    eigen_kernels::activation_forward<eigen_kernels::sigmoid_function, T>(x, y);
  }
  /// dx = dy y (1 - y), from the output.
  template <class T>
  void sigmoid_backward(operand<T, 1> y, operand<T, 1> dy, block<T, 1> dx) {
    eigen_kernels::activation_backward<eigen_kernels::sigmoid_function, T>(y, dy, dx);
  }
  template <class T>
  void tanh_forward(operand<T, 1> x, block<T, 1> y) {
    eigen_kernels::activation_forward<eigen_kernels::tanh_function, T>(x, y);
  }
  /// dx = dy (1 - y^2), from the output.
  template <class T>
  void tanh_backward(operand<T, 1> y, operand<T, 1> dy, block<T, 1> dx) {
    eigen_kernels::activation_backward<eigen_kernels::tanh_function, T>(y, dy, dx);
  }
};

}  // namespace tessera::detail
