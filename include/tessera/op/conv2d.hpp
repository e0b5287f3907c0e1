#pragma once

#include <tessera/op/matmul.hpp>
#include <tessera/op/windowed.hpp>

namespace tessera {

namespace detail {

/// Index rules of convolutions: `spec` without groups, `grouped` with; groups are cut whole. Height and width of the
/// result have the letters of the input's, because both are cut alike.
constexpr index_rules conv2d_rules(std::string_view spec, std::string_view grouped, index_t groups, linearity partial) {
  if (groups == 1)
    return {spec,
            {{'n', "batch"}, {'o', "output", false}, {'c', "input", false}, {'h', "height"}, {'w', "width"}},
            partial};
  return {grouped, {{'n', "batch"}, {'g', "channels", true, false, groups}, {'h', "height"}, {'w', "width"}}, partial};
}

template <index_t Groups>
struct conv2d_op {
  static constexpr index_rules rules = conv2d_rules("nchw,ocij->nohw", "nghw,gcij->nghw", Groups, linearity::each);
};
template <index_t Groups>
struct conv2d_input_gradient_op {
  static constexpr index_rules rules = conv2d_rules("nohw,ocij->nchw", "nghw,gcij->nghw", Groups, linearity::each);
};
template <index_t Groups>
struct conv2d_weight_gradient_op {
  static constexpr index_rules rules = conv2d_rules("nohw,nchw->ocij", "nghw,nghw->gcij", Groups, linearity::each);
};

/// Whether the axes that cut the channels cut whole groups.
template <index_t Groups, sharded_tensor X>
constexpr void check_groups() {
  static_assert(Groups == 1 || Groups % X::mesh::group_size(X::placements.shard_axes(1)) == 0,
                "tessera: conv2d has a number of groups that its channels are not cut by; choose a number of parts "
                "that divides the number of groups");
}

/// The geometry as one rank's block sees it: of the groups it has its share.
inline conv2d_geometry local_geometry(conv2d_geometry g, index_t local_outputs, index_t outputs) {
  if (g.groups > 1 && outputs > 0) g.groups = g.groups * local_outputs / outputs;
  return g;
}

constexpr shape<4> convolved_extents(shape<4> const& x, index_t outputs, conv2d_geometry const& g) {
  return {{x[0], outputs, g.output_extent(0, x[2]), g.output_extent(1, x[3])}};
}

/// How the gradient of images of these extents reads that of the output.
constexpr std::array<halo_window, 2> gradient_windows(conv2d_geometry const& g, shape<4> const& x) {
  std::array<halo_window, 2> windows = halo_windows(g, x);
  for (int d = 0; d < 2; ++d) windows[static_cast<std::size_t>(d)].transposed_outputs = x[2 + d];
  return windows;
}

/// Whether the gradient of images takes fewer elements from other ranks where these fetch the halo of the output's
/// gradient than where they send the halo of the images' gradient back. With a stride of 2 the former has half as many
/// rows and columns. The batch does not matter; ranks at the ends and in the middle of each axis are compared.
template <device_mesh Mesh>
constexpr bool fetches_gradient(placements<Mesh::axes> const& of_dx, shape<4> x, placements<Mesh::axes> const& of_dy,
                                shape<4> y, conv2d_geometry const& g) {
  if (Mesh::cutting(static_cast<axis_set>(of_dx.shard_axes(2) | of_dx.shard_axes(3))) == 0) return false;
  if (of_dy.partial_axes() != 0 || x[2] == dynamic || x[3] == dynamic) return false;
  if (g.stride == pair2d{1, 1})
    return y[1] * Mesh::group_size(of_dx.shard_axes(1)) < x[1] * Mesh::group_size(of_dy.shard_axes(1));
  x[0] = y[0] = Mesh::devices;
  index_t sent = 0;
  index_t fetched = 0;
  for (int third = 0; third < 3; ++third) {
    auto at = Mesh::sizes;
    for (int& coordinate : at) coordinate = third * (coordinate - 1) / 2;
    sent = std::max(sent, halo_plan<Mesh, 4, 2, 3>(of_dx, x, halo_windows(g, x), at).sent().elements);
    fetched = std::max(fetched, halo_plan<Mesh, 4, 2, 3>(of_dy, y, gradient_windows(g, x), at).received().elements);
  }
  return fetched < sent;
}

}  // namespace detail

namespace op {

/// Convolution (cross-correlation, zero padding): x is [N, C, H, W], w is [O, C / groups, kh, kw].
///
/// Splits: batch of x, output channels of w, input channels of both (partial result), height and width; with `Groups` >
/// 1 batch, whole groups, height and width. `geometry.groups` equals `Groups`. No collectives; under a cut of height or
/// width the messages of `windowed`.
template <index_t Groups = 1, sharded_tensor X, sharded_tensor W>
auto conv2d(windowed_images<X> const& x, W const& w, conv2d_geometry const& geometry) {
  detail::check_groups<Groups, X>();
  detail::require_extent(x.extent(1), w.extent(1) * Groups, "number of input channels of conv2d");
  detail::require_extent(geometry.groups, Groups, "number of groups in the geometry of conv2d");
  const shape<4> extents = detail::convolved_extents(x.extents, w.extent(0), geometry);
  detail::require_windows(extents, x.extents);
  result_of<detail::conv2d_op<Groups>, 4, X, W> y(x.where(), extents);
  x.where().kernels().conv2d_forward(x.block.read(), w.read(), y.write(),
                                     x.local(detail::local_geometry(geometry, w.local().extent(0), w.extent(0))));
  return y;
}
template <index_t Groups = 1, sharded_tensor X, sharded_tensor W>
auto conv2d(X const& x, W const& w, conv2d_geometry const& geometry) {
  detail::require_windows(detail::convolved_extents(x.extents(), w.extent(0), geometry), x.extents());
  return conv2d<Groups>(windowed(x, geometry), w, geometry);
}

/// Gradient of `conv2d` with respect to x, whose extents are `extents`. Partial along axes that cut output channels.
///
/// No collectives; under a cut of height or width the messages of `windowed_backward`, or those that fetch the halo of
/// dy where that is smaller.
template <index_t Groups = 1, sharded_tensor Dy, sharded_tensor W>
auto conv2d_backward_input(Dy const& dy, W const& w, shape<4> const& extents, conv2d_geometry const& geometry) {
  detail::require_shape(dy.extents(), detail::convolved_extents(extents, w.extent(0), geometry),
                        "the gradient of conv2d");
  using Dx = result_of<detail::conv2d_input_gradient_op<Groups>, 4, Dy, W>;
  const auto local = detail::local_geometry(geometry, w.local().extent(0), w.extent(0));
  if constexpr (detail::spatial_axes<Dx> != 0 && Dy::placements.partial_axes() == 0) {
    if (detail::fetches_gradient<typename Dx::mesh>(Dx::placements, extents, Dy::placements, dy.extents(), geometry)) {
      const auto padded = exchange_halo<2, 3>(dy, detail::gradient_windows(geometry, extents));
      auto of_block = local;
      of_block.padding_before = padded.padding_before;
      of_block.padding_after = padded.padding_after;
      Dx dx(dy.where(), extents);
      dy.where().kernels().conv2d_backward_input(w.read(), padded.block.read(), dx.write(), of_block);
      return dx;
    }
  }
  auto dx = windowed_gradient<Dx>(dy.where(), extents, geometry);
  dy.where().kernels().conv2d_backward_input(w.read(), dy.read(), dx.block.view(), dx.local(local));
  return windowed_backward(dx, geometry);
}

/// Gradient of `conv2d` with respect to w, written into `dw`. Partial along axes that cut batch, height or width.
///
/// Takes x as forward read it, so that nothing is sent again.
template <index_t Groups = 1, sharded_tensor Dy, sharded_tensor X, sharded_tensor Dw>
void conv2d_backward_weight(Dy const& dy, windowed_images<X> const& x, Dw& dw, conv2d_geometry const& geometry) {
  detail::check_target<result_of<detail::conv2d_weight_gradient_op<Groups>, 4, Dy, X>, Dw>();
  detail::require_shape(dy.extents(), detail::convolved_extents(x.extents, dw.extent(0), geometry),
                        "the gradient of conv2d");
  x.where().kernels().conv2d_backward_weight(
      x.block.read(), dy.read(), dw.write(),
      x.local(detail::local_geometry(geometry, dw.local().extent(0), dw.extent(0))));
}
template <index_t Groups = 1, sharded_tensor Dy, sharded_tensor X, sharded_tensor Dw>
void conv2d_backward_weight(Dy const& dy, X const& x, Dw& dw, conv2d_geometry const& geometry) {
  conv2d_backward_weight<Groups>(dy, windowed(x, geometry), dw, geometry);
}

}  // namespace op

}  // namespace tessera
