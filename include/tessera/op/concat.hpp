#pragma once

#include <tessera/op/along_dim.hpp>

namespace tessera::op {

/// Tensors of one layout, one behind the other along dimension `Dim` (negative: from the end). All may be partial along
/// the same axes.
///
/// Splits: every dimension. Collectives: where `Dim` is cut, one all_to_all of the elements that change their owner
/// (none if no element does), else none.
template <int Dim, sharded_tensor X, sharded_tensor... Xs>
X concat(X const& x, Xs const&... xs) {
  static_assert((std::is_same_v<X, Xs> && ...),
                "tessera: concat puts tensors of one type behind each other: bring them to one layout with x | "
                "tessera::to<...>; a whole tensor beside a partial sum would be added once a rank");
  constexpr int dim = detail::existing_dim<Dim, X::rank>();
  auto extents = x.extents();
  extents[dim] = 0;
  std::array<detail::placed_tensor<X const>, 1 + sizeof...(Xs)> from{};
  std::size_t next = 0;
  const auto place = [&](X const& one) {
    for (int d = 0; d < X::rank; ++d)
      if (d != dim) detail::require_extent(one.extent(d), x.extent(d), "extent of an operand of concat");
    from[next++] = {&one, extents[dim]};
    extents[dim] += one.extent(dim);
  };
  place(x);
  (place(xs), ...);
  X y(x.where(), extents);
  const detail::placed_tensor<X> to{&y, 0};
  detail::move_along<dim, X>(from, {&to, 1});
  return y;
}

/// Gradients of `concat<Dim>` with operands of these extents along `Dim`: the parts of dy. Collectives as `concat`, one
/// all_to_all for all parts.
template <int Dim, sharded_tensor Dy, std::size_t Count>
std::array<Dy, Count> concat_backward(Dy const& dy, std::array<index_t, Count> const& counts) {
  constexpr int dim = detail::existing_dim<Dim, Dy::rank>();
  std::array<Dy, Count> parts;
  std::array<detail::placed_tensor<Dy>, Count> to{};
  index_t begin = 0;
  for (std::size_t i = 0; i < Count; ++i) {
    auto extents = dy.extents();
    extents[dim] = counts[i];
    parts[i] = Dy(dy.where(), extents);
    to[i] = {&parts[i], begin};
    begin += counts[i];
  }
  detail::require_extent(begin, dy.extent(dim), "sum of the extents of the operands of concat");
  const detail::placed_tensor<Dy const> from{&dy, 0};
  detail::move_along<dim, Dy>({&from, 1}, to);
  return parts;
}

}  // namespace tessera::op
