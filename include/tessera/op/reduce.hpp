#pragma once

#include <tessera/backend/transfer.hpp>
#include <tessera/op/broadcast.hpp>

#include <cstdint>

namespace tessera {

namespace detail {

/// The dimensions that a reduction over `Dims` takes away, and those it keeps; without `Dims` it is over all.
template <int Rank, int... Dims>
struct reduced_dims {
  static_assert(rising({Dims...}) && ((Dims < Rank) && ...),
                "tessera: a reduction names dimensions of its tensor in rising order; name none to reduce all");
  static constexpr bool all = sizeof...(Dims) == 0;
  static constexpr int kept = all ? 0 : Rank - static_cast<int>(sizeof...(Dims));

  static constexpr bool has(int dim) { return all || ((dim == Dims) || ...); }
  static constexpr int kept_dim(int number) {
    for (int d = 0; d < Rank; ++d)
      if (!has(d) && number-- == 0) return d;
    return Rank;
  }
  /// Calls `f.operator()<Kept...>()` with the dimensions that are kept.
  template <class F>
  static auto with_kept(F f) {
    return [&]<int... I>(std::integer_sequence<int, I...>) { return f.template operator()<kept_dim(I)...>(); }
    (std::make_integer_sequence<int, kept>{});
  }
  /// For each dimension the distance of neighbours in the row-major order of what is reduced to one element; 0 where a
  /// dimension is kept.
  static constexpr shape<Rank> strides(shape<Rank> const& extents) {
    shape<Rank> out;
    index_t step = 1;
    for (int d = Rank - 1; d >= 0; --d)
      if (has(d)) {
        out[d] = step;
        step *= extents[d];
      }
    return out;
  }
  /// Number of elements that are reduced to one.
  static constexpr index_t count(shape<Rank> const& extents) {
    index_t n = 1;
    for (int d = 0; d < Rank; ++d) n *= has(d) ? extents[d] : 1;
    return n;
  }
  /// The axes that cut what is reduced.
  template <int Axes>
  static constexpr axis_set axes(placements<Axes> const& layout) {
    unsigned set = 0;
    for (int d = 0; d < Rank; ++d) set |= has(d) ? layout.shard_axes(d) : 0u;
    return static_cast<axis_set>(set);
  }
};

/// The layout of a reduction with another operation than sum.
template <int Axes>
constexpr placements<Axes> with_operation(placements<Axes> layout, reduction op) {
  for (int a = 0; a < Axes; ++a)
    if (layout[a].is_partial()) layout[a] = partial_placement(op);
  return layout;
}

/// The type of the maximum of X, keeping the dimensions `Kept`: a partial maximum along axes that cut the others.
template <sharded_tensor X, int... Kept>
using maximum_of =
    relaid<X, static_cast<int>(sizeof...(Kept)),
           with_operation(tessera::result_of<reduction_op<X::rank, kept_operand<X, Kept...>, linearity::none>,
                                             static_cast<int>(sizeof...(Kept)), X>::placements,
                          reduction::maximum)>;

/// Memory for the gradient of a reduction of x: cut like x, partial where `dy` is.
template <int... Kept, sharded_tensor X, sharded_tensor Dy>
auto reduction_gradient(X const& x, Dy const& dy) {
  static_assert(Dy::rank == static_cast<int>(sizeof...(Kept)),
                "tessera: the gradient of a reduction has the dimensions that the reduction keeps; pass the gradient "
                "of its result");
  require_shape(dy.extents(), shape<Dy::rank>{{x.extent(Kept)...}}, "the gradient of a reduction");
  using whole = relaid<X, X::rank, dual(X::placements)>;
  return tessera::result_of<broadcast_op<X::rank, whole, repeated<Dy, Kept...>, linearity::each>, X::rank, whole, Dy>(
      x.where(), x.extents());
}

/// factor * dy, repeated over the dimensions `Dims` of x.
template <int... Dims, sharded_tensor X, sharded_tensor Dy>
auto repeat_over(X const& x, Dy const& dy, typename X::value_type factor) {
  return reduced_dims<X::rank, Dims...>::with_kept([&]<int... Kept>() {
    using scalar = tensor<typename X::value_type, 0, typename X::context_type::backend::memory>;
    constexpr storage_order order = X::context_type::backend::order;
    auto dx = reduction_gradient<Kept...>(x, dy);
    typename Dy::local_type copy;
    auto& kernels = x.where().kernels();
    const auto by = filled<scalar>(kernels, {}, factor);
    kernels.mul_broadcast(walked<X::rank, kept_operand<X, Kept...>>(dy, copy), in_memory_order<0, order>(by.data(), {}),
                          in_memory_order<X::rank, order>(dx.write().data, dx.local().extents()));
    return dx;
  });
}

template <int... Dims, sharded_tensor X>
typename X::value_type one_over_count(X const& x) {
  return static_cast<typename X::value_type>(1 /
                                             static_cast<double>(reduced_dims<X::rank, Dims...>::count(x.extents())));
}

/// See `op::max_backward`.
template <class Reduced, int... Kept, sharded_tensor X, sharded_tensor Y, sharded_tensor Dy>
auto maximum_gradient(X const& x, Y const& y, Dy const& dy) {
  using maximum = maximum_of<X, Kept...>;
  static_assert(std::is_same_v<Y, relaid<maximum, maximum::rank, dual(maximum::placements)>>,
                "tessera: the gradient of a maximum is at the places that hold the maximum over all ranks: reduce "
                "what max returned first, as in y | tessera::to<...>, and pass it");
  using kept = kept_operand<X, Kept...>;
  using backend = typename X::context_type::backend;
  constexpr int rank = X::rank;
  constexpr storage_order order = backend::order;
  auto& context = x.where();
  auto dx = reduction_gradient<Kept...>(x, dy);
  require_shape(y.extents(), dy.extents(), "the maximum");

  const auto part = x.part();
  const auto strides = Reduced::strides(x.extents());
  index_t first = 0;
  std::array<index_t, 6> weights{};
  for (int p = 0; p < rank; ++p) {
    const int d = stored_dims<rank, order>()[static_cast<std::size_t>(p)];
    weights[static_cast<std::size_t>(6 - rank + p)] = strides[d];
    first += part[d].begin * strides[d];
  }
  typename Y::local_type copy;
  typename Dy::local_type dy_copy;
  const auto most = walked<rank, kept>(y, copy);
  using places = tensor<std::int64_t, 6, typename backend::memory>;
  places at(most.extents);
  places own(most.extents);
  context.kernels().first_maximum(in_memory_order<rank, order>(x.read().data, x.local().extents()), most, weights,
                                  first, at.view(), own.view());
  places first_of_all = own;
  constexpr axis_set axes = Reduced::axes(X::placements);
  if constexpr (X::mesh::group_size(axes) > 1) {
    first_of_all = copied(context.kernels(), own);
    context.group(axes).all_reduce(first_of_all.data(), first_of_all.size(), reduction::maximum);
  }
  context.kernels().max_backward(walked<rank, kept>(dy, dy_copy), at.read(), own.read(), first_of_all.read(),
                                 in_memory_order<rank, order>(dx.write().data, dx.local().extents()));
  return dx;
}

}  // namespace detail

namespace op {

/// The sum over the dimensions `Dims` (rising; none: all), which the result lacks: a partial sum along every axis that
/// cuts one of them. Accumulated in double. No collectives.
template <int... Dims, sharded_tensor X>
auto sum(X const& x) {
  return detail::reduced_dims<X::rank, Dims...>::with_kept([&]<int... Kept>() { return sum_along<Kept...>(x); });
}

/// Gradient of `sum<Dims...>`: dy, repeated over `Dims`. Linear, so dy may be partial along axes that do not cut x.
template <int... Dims, sharded_tensor X, sharded_tensor Dy>
auto sum_backward(X const& x, Dy const& dy) {
  return detail::repeat_over<Dims...>(x, dy, 1);
}

/// The mean over the dimensions `Dims` (rising; none: all), a partial sum along every axis that cuts one of them:
/// divides by the extents of the whole tensor, so blocks of unequal size count right. No collectives.
template <int... Dims, sharded_tensor X>
auto mean(X const& x) {
  auto y = sum<Dims...>(x);
  const auto values = y.write();
  x.where().kernels().scale(detail::flat(y.read()), detail::one_over_count<Dims...>(x), detail::flat(values));
  return y;
}

/// Gradient of `mean<Dims...>`: dy, divided by the number of elements and repeated.
template <int... Dims, sharded_tensor X, sharded_tensor Dy>
auto mean_backward(X const& x, Dy const& dy) {
  return detail::repeat_over<Dims...>(x, dy, detail::one_over_count<Dims...>(x));
}

/// The largest over the dimensions `Dims` (rising; none: all), a partial maximum along every axis that cuts one of
/// them: minus infinity where there is nothing, NaN where there is one. A partial sum does not compile. No collectives.
template <int... Dims, sharded_tensor X>
auto max(X const& x) {
  return detail::reduced_dims<X::rank, Dims...>::with_kept([&]<int... Kept>() {
    detail::maximum_of<X, Kept...> y(x.where(), {{x.extent(Kept)...}});
    detail::reduce_into<detail::kept_operand<X, Kept...>>(
        x, y, [](auto& kernels, auto from, auto to) { kernels.max_broadcast(from, to); });
    return y;
  });
}

/// Gradient of `max<Dims...>`: dy at the first place in row-major order that holds the maximum `y` (reduced over all
/// ranks; NaN counts as equal), 0 elsewhere. Every cut gives the same.
///
/// Collectives, where `Dims` are cut: one all_reduce of one 64-bit number an element of y.
template <int... Dims, sharded_tensor X, sharded_tensor Y, sharded_tensor Dy>
auto max_backward(X const& x, Y const& y, Dy const& dy) {
  using reduced = detail::reduced_dims<X::rank, Dims...>;
  return reduced::with_kept([&]<int... Kept>() { return detail::maximum_gradient<reduced, Kept...>(x, y, dy); });
}

/// The sum of all elements: `sum<>`.
template <sharded_tensor X>
auto reduce_sum(X const& x) {
  return sum<>(x);
}

/// The largest element: `max<>`.
template <sharded_tensor X>
auto reduce_max(X const& x) {
  return max<>(x);
}

/// Gradient of `reduce_sum` in the type of its input: the upstream value everywhere.
template <sharded_tensor X, sharded_tensor Dy>
X reduce_sum_backward(X const& x, Dy const& dy) {
  static_assert(Dy::rank == 0 && Dy::placements.partial_axes() == 0,
                "tessera: the gradient of a sum is a replicated scalar; reduce it first");
  return sum_backward<>(x, dy);
}

}  // namespace op

}  // namespace tessera
