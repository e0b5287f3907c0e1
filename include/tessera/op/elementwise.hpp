#pragma once

#include <tessera/op/rules.hpp>

namespace tessera {

namespace detail {

template <int Rank, int Operands, linearity Partial>
struct elementwise_op {
  static constexpr index_rules rules = elementwise_rules(Rank, Operands, Partial);
};

/// A block as one flat run, for kernels that work element by element.
template <class T, int Rank, storage_order Order>
constexpr block<T, 1> flat(block<T, Rank, Order> b) {
  return {b.data, {b.size()}};
}

template <sharded_tensor A, sharded_tensor B>
void require_equal_extents(A const& a, B const& b, char const* what) {
  static_assert(A::rank == B::rank, "tessera: this operator takes tensors of equal rank; reshape one of them first");
  if (!(a.extents() == b.extents()))
    throw error(std::string(what) + " of tensors of " + to_string(a.extents()) + " and " + to_string(b.extents()),
                "equal extents", "reshape or broadcast one of them first");
}

/// A partial sum may be divided, but nothing can be divided by one.
template <sharded_tensor B>
constexpr void require_whole_divisor() {
  static_assert(B::placements.partial_axes() == 0,
                "tessera: dividing by parts of a sum does not divide by the sum: reduce the divisor first, as in "
                "x | tessera::to<tessera::replicated>");
}

/// Gradients of functions that are not linear are taken at a value, not at a part of one.
template <sharded_tensor Y>
constexpr void require_whole_output() {
  static_assert(Y::placements.partial_axes() == 0,
                "tessera: a gradient is taken where the function was, at a value that is not partial; pass what "
                "forward was given or returned");
}

/// A function of each element, by the member of the backend that `kernel` calls.
template <sharded_tensor X, class Kernel>
auto each_element(X const& x, Kernel kernel) {
  tessera::result_of<elementwise_op<X::rank, 1, linearity::none>, X::rank, X> y(x.where(), x.extents());
  kernel(x.where().kernels(), flat(x.read()), flat(y.write()));
  return y;
}

/// Its gradient, taken at `at`: linear in dy.
template <sharded_tensor X, sharded_tensor Dy, class Kernel>
auto each_element_backward(X const& at, Dy const& dy, char const* what, Kernel kernel) {
  require_whole_output<X>();
  require_equal_extents(at, dy, what);
  tessera::result_of<elementwise_op<X::rank, 2, linearity::each>, X::rank, X, Dy> dx(at.where(), at.extents());
  kernel(at.where().kernels(), flat(at.read()), flat(dy.read()), flat(dx.write()));
  return dx;
}

}  // namespace detail

namespace op {

/// max(x, 0), element by element; NaN stays NaN. Any cut passes through; a partial sum does not compile.
template <sharded_tensor X>
auto relu(X const& x) {
  result_of<detail::elementwise_op<X::rank, 1, linearity::none>, X::rank, X> y(x.where(), x.extents());
  x.where().kernels().relu_forward(detail::flat(x.read()), detail::flat(y.write()));
  return y;
}

/// Gradient of `relu` from its output: dy where y > 0, else 0. Linear in dy, so dy may be partial.
template <sharded_tensor Y, sharded_tensor Dy>
auto relu_backward(Y const& y, Dy const& dy) {
  static_assert(Y::placements.partial_axes() == 0,
                "tessera: the output of relu is never partial; pass what relu returned");
  detail::require_equal_extents(y, dy, "relu_backward");
  result_of<detail::elementwise_op<Y::rank, 2, linearity::each>, Y::rank, Y, Dy> dx(y.where(), y.extents());
  y.where().kernels().relu_backward(detail::flat(y.read()), detail::flat(dy.read()), detail::flat(dx.write()));
  return dx;
}

/// a + b, element by element. Both may be partial sums along the same axes, then so is the result.
template <sharded_tensor A, sharded_tensor B>
auto add(A const& a, B const& b) {
  detail::require_equal_extents(a, b, "add");
  result_of<detail::elementwise_op<A::rank, 2, linearity::joint>, A::rank, A, B> y(a.where(), a.extents());
  a.where().kernels().add(detail::flat(a.read()), detail::flat(b.read()), detail::flat(y.write()));
  return y;
}

/// a - b, element by element. Both may be partial sums along the same axes, then so is the result. Gradients: dy for a,
/// `scale(dy, -1)` for b.
template <sharded_tensor A, sharded_tensor B>
auto sub(A const& a, B const& b) {
  detail::require_equal_extents(a, b, "sub");
  result_of<detail::elementwise_op<A::rank, 2, linearity::joint>, A::rank, A, B> y(a.where(), a.extents());
  a.where().kernels().sub(detail::flat(a.read()), detail::flat(b.read()), detail::flat(y.write()));
  return y;
}

/// a * b, element by element. One of them may be a partial sum; the product of two does not compile.
template <sharded_tensor A, sharded_tensor B>
auto mul(A const& a, B const& b) {
  detail::require_equal_extents(a, b, "mul");
  result_of<detail::elementwise_op<A::rank, 2, linearity::each>, A::rank, A, B> y(a.where(), a.extents());
  a.where().kernels().mul(detail::flat(a.read()), detail::flat(b.read()), detail::flat(y.write()));
  return y;
}

/// a / b, element by element. `a` may be a partial sum, then so is the result; `b` may not. Gradients: dy / b for a,
/// `scale(dy / b * y, -1)` for b, y being the result.
template <sharded_tensor A, sharded_tensor B>
auto div(A const& a, B const& b) {
  detail::require_whole_divisor<B>();
  detail::require_equal_extents(a, b, "div");
  result_of<detail::elementwise_op<A::rank, 2, linearity::each>, A::rank, A, B> y(a.where(), a.extents());
  a.where().kernels().div(detail::flat(a.read()), detail::flat(b.read()), detail::flat(y.write()));
  return y;
}

/// factor * x. Linear, so x may be partial.
template <sharded_tensor X>
auto scale(X const& x, typename X::value_type factor) {
  result_of<detail::elementwise_op<X::rank, 1, linearity::each>, X::rank, X> y(x.where(), x.extents());
  x.where().kernels().scale(detail::flat(x.read()), factor, detail::flat(y.write()));
  return y;
}

/// x + constant. Adding to a partial sum would add it once a rank, so that does not compile.
template <sharded_tensor X>
auto add_constant(X const& x, typename X::value_type constant) {
  result_of<detail::elementwise_op<X::rank, 1, linearity::none>, X::rank, X> y(x.where(), x.extents());
  auto& kernels = x.where().kernels();
  kernels.fill(detail::flat(y.write()), constant);
  kernels.add(detail::flat(x.read()), detail::flat(y.read()), detail::flat(y.write()));
  return y;
}

/// Natural logarithm, element by element.
template <sharded_tensor X>
auto log(X const& x) {
  return detail::each_element(x, [](auto& kernels, auto from, auto to) { kernels.log(from, to); });
}

/// Gradient of `log`: dy / x. Linear in dy, so dy may be partial.
template <sharded_tensor X, sharded_tensor Dy>
auto log_backward(X const& x, Dy const& dy) {
  return div(dy, x);
}

/// Exponential, element by element.
template <sharded_tensor X>
auto exp(X const& x) {
  return detail::each_element(x, [](auto& kernels, auto from, auto to) { kernels.exp(from, to); });
}

/// Gradient of `exp` from its output: dy * y. Linear in dy, so dy may be partial.
template <sharded_tensor Y, sharded_tensor Dy>
auto exp_backward(Y const& y, Dy const& dy) {
  detail::require_whole_output<Y>();
  return mul(dy, y);
}

}  // namespace op

/// `a + b`, `a - b`, `a * b`, `a / b` and `x + constant` spell `op::add`, `op::sub`, `op::mul`, `op::div` and
/// `op::add_constant`.
template <sharded_tensor A, sharded_tensor B>
auto operator+(A const& a, B const& b) {
  return op::add(a, b);
}
template <sharded_tensor A, sharded_tensor B>
auto operator*(A const& a, B const& b) {
  return op::mul(a, b);
}
template <sharded_tensor A, sharded_tensor B>
auto operator-(A const& a, B const& b) {
  return op::sub(a, b);
}
template <sharded_tensor A, sharded_tensor B>
auto operator/(A const& a, B const& b) {
  return op::div(a, b);
}
template <sharded_tensor X>
auto operator+(X const& x, typename X::value_type constant) {
  return op::add_constant(x, constant);
}
/// Tensors are not compared element by element: of partial sums that would mean nothing, and of shards only a part.
template <sharded_tensor A, sharded_tensor B>
bool operator==(A const&, B const&) {
  static_assert(!sharded_tensor<A>,
                "tessera: tensors are not compared element by element: a partial sum or a shard is only a part of the "
                "values; compare the blocks that tessera::gather gives");
  return false;
}

}  // namespace tessera
