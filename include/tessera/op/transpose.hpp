#pragma once

#include <tessera/op/broadcast.hpp>

namespace tessera {

namespace detail {

/// Where each dimension of the tensor goes: the inverse of "dimension i of the result is dimension `Perm[i]`".
template <int... Perm>
struct permutation {
  static constexpr int rank = static_cast<int>(sizeof...(Perm));
  static constexpr std::array<int, sizeof...(Perm)> source{Perm...};

  static constexpr int place_of(int dim) {
    for (int i = 0; i < rank; ++i)
      if (source[static_cast<std::size_t>(i)] == dim) return i;
    return -1;
  }
  static constexpr bool complete = [] {
    for (int d = 0; d < rank; ++d)
      if (place_of(d) < 0) return false;
    return true;
  }();
};

template <class Permutation>
constexpr index_rules transpose_rules() {
  index_rules r = elementwise_rules(Permutation::rank, 1, linearity::each);
  r.length -= Permutation::rank;
  for (const int d : Permutation::source) r.text[r.length++] = r.text[d];
  return r;
}
template <class Permutation>
struct transpose_op {
  static constexpr index_rules rules = transpose_rules<Permutation>();
};

/// The permutation as the backend walks it: dimensions in memory order, six of them.
template <class Permutation, storage_order Order>
constexpr std::array<int, 6> stored_permutation() {
  constexpr int rank = Permutation::rank;
  constexpr auto stored = stored_dims<rank, Order>();
  std::array<int, 6> from{0, 1, 2, 3, 4, 5};
  for (int p = 0; p < rank; ++p) {
    const int dim = Permutation::source[static_cast<std::size_t>(stored[static_cast<std::size_t>(p)])];
    for (int q = 0; q < rank; ++q)
      if (stored[static_cast<std::size_t>(q)] == dim) from[static_cast<std::size_t>(6 - rank + p)] = 6 - rank + q;
  }
  return from;
}

}  // namespace detail

namespace op {

/// The tensor with its dimensions in another order: dimension i of the result is dimension `Perm[i]` of x, and cut as
/// that is. Linear, so x may be partial. A local copy, no collectives.
template <int... Perm, sharded_tensor X>
auto transpose(X const& x) {
  using order_of_dims = detail::permutation<Perm...>;
  static_assert(order_of_dims::rank == X::rank && order_of_dims::complete,
                "tessera: transpose names each dimension of its tensor once; for the transpose of a matrix write "
                "transpose<1, 0>");
  constexpr storage_order order = X::context_type::backend::order;
  result_of<detail::transpose_op<order_of_dims>, X::rank, X> y(x.where(), {{x.extent(Perm)...}});
  x.where().kernels().permute(detail::in_memory_order<X::rank, order>(x.read().data, x.local().extents()),
                              detail::stored_permutation<order_of_dims, order>(),
                              detail::in_memory_order<X::rank, order>(y.write().data, y.local().extents()));
  return y;
}

/// Gradient of `transpose<Perm...>`: dy with its dimensions back in their places.
template <int... Perm, sharded_tensor Dy>
auto transpose_backward(Dy const& dy) {
  return [&]<int... I>(std::integer_sequence<int, I...>) {
    return transpose<detail::permutation<Perm...>::place_of(I)...>(dy);
  }
  (std::make_integer_sequence<int, static_cast<int>(sizeof...(Perm))>{});
}

}  // namespace op

}  // namespace tessera
