#pragma once

#include <tessera/op/along_dim.hpp>
#include <tessera/op/elementwise.hpp>

namespace tessera {

namespace detail {
inline void require_inside(index_t begin, index_t count, index_t extent) {
  if (begin < 0 || count < 0 || begin + count > extent)
    throw error("a slice of " + std::to_string(count) + " from " + std::to_string(begin) + " on",
                "a part of an extent of " + std::to_string(extent), "correct where the slice begins or how long it is");
}
}  // namespace detail

namespace op {

/// The elements from `begin` to `begin + count` along dimension `Dim` (negative: from the end), in the layout of x,
/// which may be partial.
///
/// Splits: every dimension. Collectives: where `Dim` is cut, one all_to_all of the elements that change their owner
/// (none if no element does), else none.
template <int Dim, sharded_tensor X>
X slice(X const& x, index_t begin, index_t count) {
  constexpr int dim = detail::existing_dim<Dim, X::rank>();
  detail::require_inside(begin, count, x.extent(dim));
  auto extents = x.extents();
  extents[dim] = count;
  X y(x.where(), extents);
  const detail::placed_tensor<X const> from{&x, 0};
  const detail::placed_tensor<X> to{&y, begin};
  detail::move_along<dim, X>({&from, 1}, {&to, 1});
  return y;
}

/// Gradient of a `slice` from `begin` on of a tensor of `extent` along `Dim`: dy with zeros around it. Collectives as
/// `slice`.
template <int Dim, sharded_tensor Dy>
Dy slice_backward(Dy const& dy, index_t begin, index_t extent) {
  constexpr int dim = detail::existing_dim<Dim, Dy::rank>();
  detail::require_inside(begin, dy.extent(dim), extent);
  auto extents = dy.extents();
  extents[dim] = extent;
  Dy dx(dy.where(), extents);
  dy.where().kernels().fill(detail::flat(dx.write()), typename Dy::value_type{0});
  const detail::placed_tensor<Dy const> from{&dy, begin};
  const detail::placed_tensor<Dy> to{&dx, 0};
  detail::move_along<dim, Dy>({&from, 1}, {&to, 1});
  return dx;
}

}  // namespace op

}  // namespace tessera
