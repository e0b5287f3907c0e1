#pragma once

#include <tessera/backend/eigen/activation.hpp>
#include <tessera/backend/eigen/broadcast.hpp>
#include <tessera/backend/eigen/elementwise.hpp>
#include <tessera/backend/eigen/precompiled.hpp>

namespace tessera::detail {

/// Flat kernels, operands that are repeated, and smooth activations, as members of `eigen`.
///
/// Flat kernels work in place where blocks are the same. NaN stays NaN; infinities give the limits of the functions.
template <class Self>
class elementwise_members {
 public:
  // Flat kernels, in place where blocks are the same.

  /// y = max(x, 0); NaN stays NaN.
  template <class T>
  void relu_forward(operand<T, 1> x, block<T, 1> y) {
    flat<T>(1, y, [&](auto part, auto to) { eigen_kernels::relu_forward<T>(part(x), to); });
  }
  /// dx = dy where y > 0, else 0 (also at 0).
  template <class T>
  void relu_backward(operand<T, 1> y, operand<T, 1> dy, block<T, 1> dx) {
    flat<T>(1, dx, [&](auto part, auto to) { eigen_kernels::relu_backward<T>(part(y), part(dy), to); });
  }
  template <class T>
  void add(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
    flat<T>(1, y, [&](auto part, auto to) { eigen_kernels::add<T>(part(a), part(b), to); });
  }
  template <class T>
  void sub(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
    flat<T>(1, y, [&](auto part, auto to) { eigen_kernels::sub<T>(part(a), part(b), to); });
  }
  template <class T>
  void mul(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
    flat<T>(1, y, [&](auto part, auto to) { eigen_kernels::mul<T>(part(a), part(b), to); });
  }
  /// y = a * factor.
  template <class T>
  void scale(operand<T, 1> a, std::type_identity_t<T> factor, block<T, 1> y) {
    flat<T>(1, y, [&](auto part, auto to) { eigen_kernels::scale<T>(part(a), factor, to); });
  }
  /// y += factor * x.
  template <class T>
  void axpy(std::type_identity_t<T> factor, operand<T, 1> x, block<T, 1> y) {
    flat<T>(1, y, [&](auto part, auto to) { eigen_kernels::axpy<T>(factor, part(x), to); });
  }
  template <class T>
  void exp(operand<T, 1> x, block<T, 1> y) {
    flat<T>(8, y, [&](auto part, auto to) { eigen_kernels::exp<T>(part(x), to); });
  }
  template <class T>
  void log(operand<T, 1> x, block<T, 1> y) {
    flat<T>(8, y, [&](auto part, auto to) { eigen_kernels::log<T>(part(x), to); });
  }

  // Blocks of six dimensions in memory order; those of extent 1 are repeated to the extents of the result.

  /// y = a + b. In place only where the operand is not repeated.
  template <class T>
  void add_broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y) {
    eigen_kernels::broadcast<T>(a, b, y, scratch(),
                                [](auto const& p, auto const& q) { return Eigen::internal::padd(p, q); });
  }
  /// y = a * b. In place only where the operand is not repeated.
  template <class T>
  void mul_broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y) {
    eigen_kernels::broadcast<T>(a, b, y, scratch(),
                                [](auto const& p, auto const& q) { return Eigen::internal::pmul(p, q); });
  }
  /// y = sum of x over the dimensions in which y has the extent 1.
  template <class T>
  void sum_broadcast(operand<T, 6> x, block<T, 6> y) {
    eigen_kernels::sum_broadcast<T>(x, y, scratch());
  }

  /// y = a / b.
  template <class T>
  void div(operand<T, 1> a, operand<T, 1> b, block<T, 1> y) {
    flat<T>(1, y, [&](auto part, auto to) { eigen_kernels::div<T>(part(a), part(b), to); });
  }
  /// y = a - b, dimensions of extent 1 repeated. In place only where the operand is not repeated.
  template <class T>
  void sub_broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y) {
    eigen_kernels::broadcast<T>(a, b, y, scratch(),
                                [](auto const& p, auto const& q) { return Eigen::internal::psub(p, q); });
  }
  /// y = a / b, likewise.
  template <class T>
  void div_broadcast(operand<T, 6> a, operand<T, 6> b, block<T, 6> y) {
    eigen_kernels::broadcast<T>(a, b, y, scratch(),
                                [](auto const& p, auto const& q) { return Eigen::internal::pdiv(p, q); });
  }

  /// y = x Phi(x), Phi the normal distribution function.
  template <class T>
  void gelu_forward(operand<T, 1> x, block<T, 1> y) {
    activate<eigen_kernels::gelu_function, T>(x, y);
  }
  /// dx = dy (Phi(x) + x Phi'(x)).
  template <class T>
  void gelu_backward(operand<T, 1> x, operand<T, 1> dy, block<T, 1> dx) {
    differentiate<eigen_kernels::gelu_function, T>(x, dy, dx);
  }
  /// y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
  template <class T>
  void gelu_tanh_forward(operand<T, 1> x, block<T, 1> y) {
    activate<eigen_kernels::gelu_tanh_function, T>(x, y);
  }
  template <class T>
  void gelu_tanh_backward(operand<T, 1> x, operand<T, 1> dy, block<T, 1> dx) {
    differentiate<eigen_kernels::gelu_tanh_function, T>(x, dy, dx);
  }
  /// y = x / (1 + exp(-x)).
  template <class T>
  void silu_forward(operand<T, 1> x, block<T, 1> y) {
    activate<eigen_kernels::silu_function, T>(x, y);
  }
  template <class T>
  void silu_backward(operand<T, 1> x, operand<T, 1> dy, block<T, 1> dx) {
    differentiate<eigen_kernels::silu_function, T>(x, dy, dx);
  }
  /// y = 1 / (1 + exp(-x)).
  template <class T>
  void sigmoid_forward(operand<T, 1> x, block<T, 1> y) {
    activate<eigen_kernels::sigmoid_function, T>(x, y);
  }
  /// dx = dy y (1 - y), from the output.
  template <class T>
  void sigmoid_backward(operand<T, 1> y, operand<T, 1> dy, block<T, 1> dx) {
    differentiate<eigen_kernels::sigmoid_function, T>(y, dy, dx);
  }
  template <class T>
  void tanh_forward(operand<T, 1> x, block<T, 1> y) {
    activate<eigen_kernels::tanh_function, T>(x, y);
  }
  /// dx = dy (1 - y^2), from the output.
  template <class T>
  void tanh_backward(operand<T, 1> y, operand<T, 1> dy, block<T, 1> dx) {
    differentiate<eigen_kernels::tanh_function, T>(y, dy, dx);
  }

 private:
  /// Calls `with(part, to)` on each thread: `part(operand)` is the operand's part that belongs to `to`, a part of y.
  template <class T, class With>
  void flat(index_t cost, block<T, 1> y, With with) {
    scratch().split_elements(y.data, y.size(), cost, [&](index_t begin, index_t end) {
      with([=](operand<T, 1> whole) { return eigen_kernels::outer_part(whole, begin, end); },
           eigen_kernels::outer_part(y, begin, end));
    });
  }
  template <class Function, class T>
  void activate(operand<T, 1> x, block<T, 1> y) {
    flat<T>(8, y, [&](auto part, auto to) { eigen_kernels::activation_forward<Function, T>(part(x), to); });
  }
  template <class Function, class T>
  void differentiate(operand<T, 1> at, operand<T, 1> dy, block<T, 1> dx) {
    flat<T>(8, dx,
            [&](auto part, auto to) { eigen_kernels::activation_backward<Function, T>(part(at), part(dy), to); });
  }

  eigen_kernels::workspace& scratch() { return static_cast<Self*>(this)->scratch_; }
};

}  // namespace tessera::detail
