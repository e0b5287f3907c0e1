#pragma once

#include <tessera/op/windowed.hpp>

namespace tessera {

namespace detail {
constexpr index_rules pool2d_rules(linearity partial) {
  return {"nchw->nchw", {{'n', "batch"}, {'c', "channels"}, {'h', "height"}, {'w', "width"}}, partial};
}
struct pool2d_op {
  static constexpr index_rules rules = pool2d_rules(linearity::each);
};
struct max_pool2d_op {
  static constexpr index_rules rules = pool2d_rules(linearity::none);
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
/// A pooling over cut images takes its gradient where the images are whole, and cut as they are elsewhere.
template <sharded_tensor Dx, sharded_tensor Dy>
constexpr void check_pooled_gradient() {
  static_assert(Dx::placements.partial_axes() == Dy::placements.partial_axes() &&
                    Dx::placements.shard_axes(0) == Dy::placements.shard_axes(0) &&
                    Dx::placements.shard_axes(1) == Dy::placements.shard_axes(1),
                "tessera: this pooling needs the gradient partial along the same axes, and with batch and channels "
                "cut, like its input; redistribute it first");
}

/// Where this rank's block lies in the images.
template <sharded_tensor X>
image_part part_of_images(X const& x) {
  return {{x.part()[2].begin, x.part()[3].begin}, {x.extent(2), x.extent(3)}};
}
}  // namespace detail

namespace op {

/// A maximum pooling's result, and where in the block that was read each maximum was.
template <class Y, class Where>
struct max_pooled {
  Y y;
  Where argmax;
};

/// Maximum over windows of [N, C, H, W], padding being minus infinity; NaN is a maximum.
///
/// Splits: batch, channels, height, width. No collectives; under a cut of height or width the messages of `windowed`.
/// Among equal values the first in row-major order of the window counts.
template <sharded_tensor X>
auto max_pool2d(X const& x, pool2d_geometry const& geometry) {
  using Y = result_of<detail::max_pool2d_op, 4, X>;
  using where = tensor<std::int32_t, 4, typename X::context_type::backend::memory, X::context_type::backend::order>;
  Y y(x.where(), detail::pooled_extents(x.extents(), geometry));
  where argmax(y.local().extents());
  const auto images = windowed(x, geometry);
  x.where().kernels().max_pool2d_forward(images.block.read(), y.write(), argmax.view(), images.local(geometry));
  return max_pooled<Y, where>{std::move(y), std::move(argmax)};
}

/// Gradient of `max_pool2d` for an input of these extents. Linear in dy, which may be partial.
///
/// No collectives; under a cut of height or width the messages of `windowed_backward`.
template <sharded_tensor Dy, class Where>
auto max_pool2d_backward(Dy const& dy, Where const& argmax, shape<4> const& extents, pool2d_geometry const& geometry) {
  detail::require_shape(dy.extents(), detail::pooled_extents(extents, geometry), "the gradient of max_pool2d");
  auto dx = windowed_gradient<result_of<detail::pool2d_op, 4, Dy>>(dy.where(), extents, geometry);
  dy.where().kernels().max_pool2d_backward(dy.read(), argmax.read(), dx.block.view(), dx.local(geometry));
  return windowed_backward(dx, geometry);
}

/// Mean over windows of [N, C, H, W]. Splits and messages as `max_pool2d`.
template <sharded_tensor X>
auto avg_pool2d(X const& x, pool2d_geometry const& geometry) {
  result_of<detail::pool2d_op, 4, X> y(x.where(), detail::pooled_extents(x.extents(), geometry));
  const auto images = windowed(x, geometry);
  x.where().kernels().avg_pool2d_forward(images.block.read(), y.write(), images.local(geometry));
  return y;
}

/// Gradient of `avg_pool2d` for an input of these extents.
template <sharded_tensor Dy>
auto avg_pool2d_backward(Dy const& dy, shape<4> const& extents, pool2d_geometry const& geometry) {
  detail::require_shape(dy.extents(), detail::pooled_extents(extents, geometry), "the gradient of avg_pool2d");
  auto dx = windowed_gradient<result_of<detail::pool2d_op, 4, Dy>>(dy.where(), extents, geometry);
  dy.where().kernels().avg_pool2d_backward(dy.read(), dx.block.view(), dx.local(geometry));
  return windowed_backward(dx, geometry);
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
  detail::check_pooled_gradient<Dx, Dy>();
  Dx dx(dy.where(), extents);
  dy.where().kernels().global_avg_pool_backward(dy.read(), dx.write(), extents[2] * extents[3]);
  return dx;
}

/// Means over `height` x `width` windows that cover the image evenly, whatever its size (`adaptive_window`).
///
/// Splits: batch, channels; height and width give a partial sum. No collectives.
template <sharded_tensor X>
auto adaptive_avg_pool(X const& x, index_t height, index_t width) {
  if (height < 1 || width < 1 || x.extent(2) < 1 || x.extent(3) < 1)
    throw error("an adaptive pooling of images of " + to_string(x.extents()) + " to " + std::to_string(height) + " x " +
                    std::to_string(width),
                "images and results of one pixel or more", "correct the output size, or drop empty images");
  result_of<detail::global_avg_pool_op, 4, X> y(x.where(), {{x.extent(0), x.extent(1), height, width}});
  x.where().kernels().adaptive_avg_pool_forward(x.read(), y.write(), detail::part_of_images(x));
  return y;
}

/// Gradient of `adaptive_avg_pool` in the layout `Dx`. No collectives: each rank spreads what belongs to its block.
template <sharded_tensor Dx, sharded_tensor Dy>
Dx adaptive_avg_pool_backward(Dy const& dy, shape<4> const& extents) {
  detail::check_pooled_gradient<Dx, Dy>();
  Dx dx(dy.where(), extents);
  dy.where().kernels().adaptive_avg_pool_backward(dy.read(), dx.write(), detail::part_of_images(dx));
  return dx;
}

}  // namespace op

}  // namespace tessera
