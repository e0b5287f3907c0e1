#pragma once

#include <tessera/op/elementwise.hpp>
#include <tessera/op/rules.hpp>

#include <utility>

namespace tessera {

/// A tensor that is the same along some dimensions of what it is combined with: see `along`.
template <sharded_tensor X, int... Dims>
struct repeated {
  static_assert(X::rank == sizeof...(Dims),
                "tessera: along<...> names one dimension of the result for each dimension of its tensor");
  X const& value;
};

/// `along<1>(bias)` lies along dimension 1 of the other operand (or of the result, where both are repeated) and is
/// repeated over all others: `x + along<1>(bias)` adds a bias to each channel. Dimensions are named in rising order.
///
/// The dimensions are said, not matched from behind, because extents are only known at run time while layouts are
/// types.
template <int... Dims, sharded_tensor X>
repeated<X, Dims...> along(X const& x) {
  return {x};
}

namespace detail {

constexpr bool rising(std::initializer_list<int> dims) {
  int last = -1;
  for (const int d : dims) {
    if (d <= last) return false;
    last = d;
  }
  return last < max_rank;
}

/// What `broadcast_op` needs to know of an operand: its tensor and the dimensions of the result that it has.
template <class X>
struct broadcast_operand {
  static constexpr bool valid = false;
};
template <sharded_tensor X>
struct broadcast_operand<X> {
  using type = X;
  static constexpr bool valid = true;
  static constexpr bool plain = true;
  static constexpr int rank = X::rank;
  static constexpr bool has(int dim) { return dim < rank; }
  static X const& tensor_of(X const& x) { return x; }
};
template <class X, int... Dims>
struct broadcast_operand<repeated<X, Dims...>> {
  static_assert(rising({Dims...}),
                "tessera: along<...> names dimensions from 0 to 5 in rising order; transpose the tensor first");
  using type = X;
  static constexpr bool valid = true;
  static constexpr bool plain = false;
  static constexpr int rank = std::max({0, Dims + 1 ...});
  static constexpr bool has(int dim) { return ((dim == Dims) || ...); }
  static X const& tensor_of(repeated<X, Dims...> const& x) { return x.value; }
};

template <class A, class B>
concept broadcastable =
    broadcast_operand<A>::valid && broadcast_operand<B>::valid && !(sharded_tensor<A> && sharded_tensor<B>);

template <class A, class B>
inline constexpr int broadcast_rank = std::max(broadcast_operand<A>::rank, broadcast_operand<B>::rank);

/// Elementwise rules of operands that lack some letters of the result.
template <int Rank, class... Operands>
constexpr index_rules broadcast_rules(linearity partial) {
  const index_rules whole = elementwise_rules(Rank, 1, partial);
  index_rules r("", {}, partial);
  const auto write = [&](std::string_view text) {
    for (const char c : text) r.text[r.length++] = c;
  };
  const auto operand = [&]<class X>(std::type_identity<X>) {
    if (r.length > 0) write(",");
    for (int d = 0; d < Rank; ++d)
      if (X::has(d)) write(whole.result().substr(static_cast<std::size_t>(d), 1));
  };
  (operand(std::type_identity<Operands>{}), ...);
  write("->");
  write(whole.result());
  for (int c = 0; c < whole.count; ++c) r.cuts[r.count++] = whole.cuts[c];
  return r;
}

template <int Rank, class A, class B, linearity Partial>
struct broadcast_op {
  static_assert((!broadcast_operand<A>::plain || broadcast_operand<A>::rank == Rank) &&
                    (!broadcast_operand<B>::plain || broadcast_operand<B>::rank == Rank),
                "tessera: along<...> names a dimension that the other operand does not have; name dimensions below "
                "its rank, or wrap both operands in along<...>");
  static_assert(
      [] {
        for (int d = 0; d < Rank; ++d)
          if (!broadcast_operand<A>::has(d) && !broadcast_operand<B>::has(d)) return false;
        return true;
      }(),
      "tessera: neither operand has a dimension of the result, so its extent is unknown; leave the gap out of "
      "along<...>");
  static constexpr index_rules rules = broadcast_rules<Rank, broadcast_operand<A>, broadcast_operand<B>>(Partial);
};

/// Extents in the dimensions of the result, 1 where the operand lacks one.
template <int Rank, class Operand, int Own>
constexpr shape<Rank> spread(shape<Own> const& own) {
  shape<Rank> s;
  for (int d = 0, next = 0; d < Rank; ++d) s[d] = Operand::has(d) ? own[next++] : 1;
  return s;
}

/// A block of `Rank` dimensions as the backend walks it: six dimensions in memory order.
template <int Rank, storage_order Order, class T>
constexpr block<T, 6> in_memory_order(T* data, shape<Rank> const& extents) {
  constexpr auto dims = stored_dims<Rank, Order>();
  shape<6> s;
  for (int p = 0; p < 6; ++p) s[p] = p < 6 - Rank ? 1 : extents[dims[static_cast<std::size_t>(p - (6 - Rank))]];
  return {data, s};
}

/// An operand's own distances between neighbours, in the dimensions of `in_memory_order`; 0 where it lacks one.
template <int Rank, class Operand, storage_order Order, int Own>
constexpr std::array<index_t, 6> own_strides(shape<Own> const& extents) {
  const auto own = strides_of<Order>(extents);
  std::array<index_t, 6> strides{};
  for (int p = 6 - Rank; p < 6; ++p) {
    const int dim = stored_dims<Rank, Order>()[static_cast<std::size_t>(p - (6 - Rank))];
    int before = 0;
    for (int d = 0; d < dim; ++d) before += Operand::has(d) ? 1 : 0;
    if (Operand::has(dim)) strides[static_cast<std::size_t>(p)] = own[static_cast<std::size_t>(before)];
  }
  return strides;
}

/// Whether an operand's dimensions lie in memory in the order in which the result's do: images have channels last,
/// the tensors of other ranks that are combined with them are row-major.
template <int Rank, class Operand, storage_order Order, int Own>
constexpr bool lies_alike() {
  index_t last = 0;
  shape<Own> two;
  for (int d = 0; d < Own; ++d) two[d] = 2;
  for (const index_t step : own_strides<Rank, Operand, Order>(two)) {
    if (step == 0) continue;
    if (last != 0 && step > last) return false;
    last = step;
  }
  return true;
}

/// The elements of an operand in its own order, and in that of the result, listed in the latter.
template <int Rank, class Operand, storage_order Order, class T, int Own>
constexpr strided<T> in_own_order(T* data, shape<Own> const& extents) {
  return {data, in_memory_order<Rank, Order>(data, spread<Rank, Operand>(extents)).extents,
          own_strides<Rank, Operand, Order>(extents)};
}
template <int Rank, class Operand, storage_order Order, class T, int Own>
constexpr strided<T> in_order_of_result(T* data, shape<Own> const& extents) {
  const auto walked = in_memory_order<Rank, Order>(data, spread<Rank, Operand>(extents));
  return {data, walked.extents, strides_of<Order>(walked.extents)};
}

/// This rank's block of an operand as the backend walks it. Copies an operand that lies in another order.
template <int Rank, class Operand, sharded_tensor X>
auto walked(X const& x, typename X::local_type& copy) {
  using T = typename X::value_type;
  constexpr storage_order order = X::context_type::backend::order;
  auto const& extents = x.local().extents();
  T const* data = x.read().data;
  if constexpr (!lies_alike<Rank, Operand, order, X::rank>()) {
    copy = typename X::local_type(extents);
    x.where().kernels().copy_strided(in_own_order<Rank, Operand, order>(data, extents),
                                     in_order_of_result<Rank, Operand, order>(copy.data(), extents));
    data = copy.data();
  }
  return in_memory_order<Rank, order>(data, spread<Rank, Operand>(extents));
}

/// Combines two operands of which at least one is repeated.
template <linearity Partial, class A, class B, class Kernel>
auto combine(A const& a, B const& b, char const* what, Kernel kernel) {
  using first = broadcast_operand<A>;
  using second = broadcast_operand<B>;
  constexpr int rank = broadcast_rank<A, B>;
  auto const& x = first::tensor_of(a);
  auto const& z = second::tensor_of(b);
  const auto extents_x = spread<rank, first>(x.extents());
  const auto extents_z = spread<rank, second>(z.extents());
  shape<rank> extents;
  for (int d = 0; d < rank; ++d) {
    if (first::has(d) && second::has(d) && extents_x[d] != extents_z[d])
      throw error(std::string(what) + " of tensors of " + to_string(extents_x) + " and " + to_string(extents_z) +
                      " (1 where one is repeated)",
                  "equal extents in each dimension that both have", "name other dimensions in along<...>");
    extents[d] = first::has(d) ? extents_x[d] : extents_z[d];
  }
  using X = typename first::type;
  constexpr storage_order order = X::context_type::backend::order;
  tessera::result_of<broadcast_op<rank, A, B, Partial>, rank, X, typename second::type> y(x.where(), extents);
  typename X::local_type copy_x;
  typename second::type::local_type copy_z;
  kernel(x.where().kernels(), walked<rank, first>(x, copy_x), walked<rank, second>(z, copy_z),
         in_memory_order<rank, order>(y.write().data, y.local().extents()));
  return y;
}

/// An operand that has the dimensions `Kept` of X.
template <sharded_tensor X, int... Kept>
using kept_operand =
    broadcast_operand<repeated<relaid<X, static_cast<int>(sizeof...(Kept)), placements<X::mesh::axes>{}>, Kept...>>;

/// Rules of reducing all dimensions but those that an operand has.
template <int Rank, class Kept>
constexpr index_rules reduction_rules(linearity partial) {
  index_rules r = elementwise_rules(Rank, 1, partial);
  r.length -= Rank;
  for (int d = 0; d < Rank; ++d)
    if (Kept::has(d)) r.text[r.length++] = r.text[d];
  return r;
}
template <int Rank, class Kept, linearity Partial>
struct reduction_op {
  static constexpr index_rules rules = reduction_rules<Rank, Kept>(Partial);
};

/// Calls `kernel(kernels, x, y)` with this rank's blocks as the backend walks them, those of y having the extent 1
/// where x is reduced.
template <class Kept, sharded_tensor X, sharded_tensor Y, class Kernel>
void reduce_into(X const& x, Y& y, Kernel kernel) {
  constexpr storage_order order = X::context_type::backend::order;
  auto const& local = y.local().extents();
  const auto run = [&](auto* data) {
    kernel(x.where().kernels(), in_memory_order<X::rank, order>(x.read().data, x.local().extents()),
           in_memory_order<X::rank, order>(data, spread<X::rank, Kept>(local)));
  };
  if constexpr (lies_alike<X::rank, Kept, order, Y::rank>()) {
    run(y.write().data);
  } else {
    auto reduced = typename Y::local_type(local);
    run(reduced.data());
    x.where().kernels().copy_strided(in_order_of_result<X::rank, Kept, order>(std::as_const(reduced).data(), local),
                                     in_own_order<X::rank, Kept, order>(y.write().data, local));
  }
}

}  // namespace detail

namespace op {

/// a + b where `along` repeats one or both. Both may be partial sums along the same axes, then so is the result.
template <class A, class B>
requires detail::broadcastable<A, B>
auto add(A const& a, B const& b) {
  return detail::combine<linearity::joint>(
      a, b, "add", [](auto& kernels, auto x, auto z, auto y) { kernels.add_broadcast(x, z, y); });
}

/// a * b where `along` repeats one or both. One of them may be a partial sum.
template <class A, class B>
requires detail::broadcastable<A, B>
auto mul(A const& a, B const& b) {
  return detail::combine<linearity::each>(
      a, b, "mul", [](auto& kernels, auto x, auto z, auto y) { kernels.mul_broadcast(x, z, y); });
}

/// a - b where `along` repeats one or both. Both may be partial sums along the same axes, then so is the result.
template <class A, class B>
requires detail::broadcastable<A, B>
auto sub(A const& a, B const& b) {
  return detail::combine<linearity::joint>(
      a, b, "sub", [](auto& kernels, auto x, auto z, auto y) { kernels.sub_broadcast(x, z, y); });
}

/// a / b where `along` repeats one or both. `a` may be a partial sum, `b` may not.
template <class A, class B>
requires detail::broadcastable<A, B>
auto div(A const& a, B const& b) {
  detail::require_whole_divisor<typename detail::broadcast_operand<B>::type>();
  return detail::combine<linearity::each>(
      a, b, "div", [](auto& kernels, auto x, auto z, auto y) { kernels.div_broadcast(x, z, y); });
}

/// The sum over all dimensions but `Dims`, a partial sum along every axis that cuts one of those: the gradient of
/// `along<Dims...>`. Accumulated in double. No collectives.
template <int... Dims, sharded_tensor X>
auto sum_along(X const& x) {
  constexpr int rank = static_cast<int>(sizeof...(Dims));
  static_assert(detail::rising({Dims...}) && ((Dims < X::rank) && ...),
                "tessera: sum_along<...> keeps dimensions of its tensor, named in rising order");
  using kept = detail::kept_operand<X, Dims...>;
  result_of<detail::reduction_op<X::rank, kept, linearity::each>, rank, X> y(x.where(), {{x.extent(Dims)...}});
  detail::reduce_into<kept>(x, y, [](auto& kernels, auto from, auto to) { kernels.sum_broadcast(from, to); });
  return y;
}

}  // namespace op

/// `x + along<1>(b)`, and likewise -, * and /, spell `op::add`, `op::sub`, `op::mul` and `op::div`.
template <class A, class B>
requires detail::broadcastable<A, B>
auto operator+(A const& a, B const& b) { return op::add(a, b); }
template <class A, class B>
requires detail::broadcastable<A, B>
auto operator-(A const& a, B const& b) { return op::sub(a, b); }
template <class A, class B>
requires detail::broadcastable<A, B>
auto operator*(A const& a, B const& b) { return op::mul(a, b); }
template <class A, class B>
requires detail::broadcastable<A, B>
auto operator/(A const& a, B const& b) { return op::div(a, b); }

}  // namespace tessera
