#pragma once

#include <tessera/backend/geometry.hpp>
#include <tessera/op/rules.hpp>

namespace tessera {

namespace detail {
struct pool2d_op {
  static constexpr index_rules rules{"nchw->ncrs", {{'n', "batch"}, {'c', "channels"}}, linearity::each};
};
struct max_pool2d_op {
  static constexpr index_rules rules{"nchw->ncrs", {{'n', "batch"}, {'c', "channels"}}};
};
struct pool2d_gradient_op {
  static constexpr index_rules rules{"ncrs->nchw", {{'n', "batch"}, {'c', "channels"}}, linearity::each};
};
struct global_avg_pool_op {
  static constexpr index_rules rules{
      "nchw->ncrs", {{'n', "batch"}, {'c', "channels"}, {'h', "height"}, {'w', "width"}}, linearity::each};
};

inline shape<4> pooled_extents(shape<4> const& x, pool2d_geometry const& g) {
  const shape<4> y{{x[0], x[1], g.output_extent(0, x[2]), g.output_extent(1, x[3])}};
  require_windows(y, x);
  return y;
}
}  // namespace detail

namespace op {

/// A maximum pooling's result, and where in its image each maximum was.
template <class Y, class Where>
struct max_pooled {
  Y y;
  Where argmax;
};

/// Maximum over windows of [N, C, H, W], padding being minus infinity; NaN is a maximum.
///
/// Splits: batch, channels. No collectives. Among equal values the first in row-major order of the window counts.
template <sharded_tensor X>
auto max_pool2d(X const& x, pool2d_geometry const& geometry) {
  using Y = result_of<detail::max_pool2d_op, 4, X>;
  using where = tensor<std::int32_t, 4, typename X::context_type::backend::memory, X::context_type::backend::order>;
  Y y(x.where(), detail::pooled_extents(x.extents(), geometry));
  where argmax(y.local().extents());
  x.where().kernels().max_pool2d_forward(x.read(), y.write(), argmax.view(), geometry);
  return max_pooled<Y, where>{std::move(y), std::move(argmax)};
}

/// Gradient of `max_pool2d` for an input of these extents. Linear in dy, which may be partial.
template <sharded_tensor Dy, class Where>
auto max_pool2d_backward(Dy const& dy, Where const& argmax, shape<4> const& extents, pool2d_geometry const& geometry) {
  detail::require_shape(dy.extents(), detail::pooled_extents(extents, geometry), "the gradient of max_pool2d");
  result_of<detail::pool2d_gradient_op, 4, Dy> dx(dy.where(), extents);
  dy.where().kernels().max_pool2d_backward(dy.read(), argmax.read(), dx.write(), geometry);
  return dx;
}

/// Mean over windows of [N, C, H, W]. Splits: batch, channels. No collectives.
template <sharded_tensor X>
auto avg_pool2d(X const& x, pool2d_geometry const& geometry) {
  result_of<detail::pool2d_op, 4, X> y(x.where(), detail::pooled_extents(x.extents(), geometry));
  x.where().kernels().avg_pool2d_forward(x.read(), y.write(), geometry);
  return y;
}

/// Gradient of `avg_pool2d` for an input of these extents.
template <sharded_tensor Dy>
auto avg_pool2d_backward(Dy const& dy, shape<4> const& extents, pool2d_geometry const& geometry) {
  detail::require_shape(dy.extents(), detail::pooled_extents(extents, geometry), "the gradient of avg_pool2d");
  result_of<detail::pool2d_gradient_op, 4, Dy> dx(dy.where(), extents);
  dy.where().kernels().avg_pool2d_backward(dy.read(), dx.write(), geometry);
  return dx;
}

/// Mean of each channel's image, [N, C, 1, 1].
///
/// Splits: batch, channels; height and width give a partial sum. No collectives.
template <sharded_tensor X>
auto global_avg_pool(X const& x) {
  result_of<detail::global_avg_pool_op, 4, X> y(x.where(), {{x.extent(0), x.extent(1), 1, 1}});
  x.where().kernels().global_avg_pool_forward(x.read(), y.write(), x.extent(2) * x.extent(3));
  return y;
}

/// Gradient of `global_avg_pool` in the layout `Dx`. No collectives: each rank spreads what belongs to its block.
template <sharded_tensor Dx, sharded_tensor Dy>
Dx global_avg_pool_backward(Dy const& dy, shape<4> const& extents) {
  static_assert(Dx::placements.partial_axes() == Dy::placements.partial_axes() &&
                    Dx::placements.shard_axes(0) == Dy::placements.shard_axes(0) &&
                    Dx::placements.shard_axes(1) == Dy::placements.shard_axes(1),
                "tessera: global_avg_pool needs the gradient partial along the same axes, and with batch and channels "
                "cut, like its input; redistribute it first");
  Dx dx(dy.where(), extents);
  dy.where().kernels().global_avg_pool_backward(dy.read(), dx.write(), extents[2] * extents[3]);
  return dx;
}

}  // namespace op

}  // namespace tessera
