#pragma once

#include <tessera/backend/geometry.hpp>
#include <tessera/op/rules.hpp>
#include <tessera/redistribute/halo.hpp>

#include <utility>

namespace tessera {

/// Images [N, C, H, W] as a windowed operator reads them: this rank's block with the rows and columns of its neighbours
/// that its share of the result needs. `op::windowed` makes one; forward and the gradient of the weight share it.
template <sharded_tensor X>
struct windowed_images {
  using image_type = X;
  using local_type = typename X::local_type;

  typename X::context_type* context = nullptr;
  shape<4> extents{};           ///< of the whole images
  local_type block{};           ///< the own block where no axis cuts height or width
  pair2d padding_before{0, 0};  ///< what kernels still assume above and left of the block
  pair2d padding_after{0, 0};   ///< and below and right of it

  typename X::context_type& where() const { return *context; }
  index_t extent(int dim) const { return extents[dim]; }

  /// A geometry over the whole images as a kernel over the block sees it.
  template <class Geometry>
  Geometry local(Geometry g) const {
    g.padding_before = padding_before;
    g.padding_after = padding_after;
    return g;
  }
};

namespace detail {

/// The axes that cut height or width.
template <sharded_tensor X>
inline constexpr axis_set spatial_axes = X::mesh::cutting(static_cast<axis_set>(X::placements.shard_axes(2) |
                                                                                X::placements.shard_axes(3)));

/// How a geometry walks height and width of images of these extents. Where `ceil_mode` adds a last window that
/// overhangs, or leaves one out that would begin beyond the image, the padding after is what gives as many windows.
template <class Geometry>
constexpr std::array<halo_window, 2> halo_windows(Geometry const& g, shape<4> const& extents) {
  std::array<halo_window, 2> windows{};
  for (int d = 0; d < 2; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const index_t extent = extents[2 + d];
    halo_window& w = windows[i];
    w = {g.kernel[i], g.stride[i], g.padding_before[i], g.padding_after[i], g.dilation[i]};
    const index_t outputs = g.output_extent(d, extent);
    if (w.output_extent(extent) == outputs) continue;
    w.padding_after = std::max<index_t>(0, (outputs - 1) * w.stride + w.reach() - extent - w.padding_before);
  }
  return windows;
}

/// The padding after the part `where` of images: where it reaches their end no more than was asked for, though the last
/// window of a pooling may reach further.
template <class Geometry>
pair2d padding_within(Geometry const& g, pair2d after, box<4> const& where, shape<4> const& extents) {
  for (int d = 0; d < 2; ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (where[2 + d].end() == extents[2 + d]) after[i] = std::min(after[i], g.padding_after[i]);
  }
  return after;
}

}  // namespace detail

namespace op {

/// Fetches what this rank's share of a windowed operator reads of images. Where no axis cuts height or width that is
/// its own block, and nothing is sent.
///
/// Messages: those of `halo_plan` over height, then width, whose messages carry the corners.
template <class Geometry, sharded_tensor X>
windowed_images<X> windowed(X const& x, Geometry const& geometry) {
  static_assert(X::rank == 4, "tessera: windowed operators take images [N, C, H, W]; reshape the input first");
  if constexpr (detail::spatial_axes<X> == 0) {
    return {&x.where(), x.extents(), x.local(), geometry.padding_before, geometry.padding_after};
  } else {
    auto padded = exchange_halo<2, 3>(x, detail::halo_windows(geometry, x.extents()));
    return {&x.where(), x.extents(), std::move(padded.block), padded.padding_before,
            detail::padding_within(geometry, padded.padding_after, padded.where, x.extents())};
  }
}

/// Where a backward kernel writes: the block that `windowed` makes of `Dx`, its contents arbitrary.
template <sharded_tensor Dx, class Geometry>
windowed_images<Dx> windowed_gradient(typename Dx::context_type& context, shape<4> const& extents,
                                      Geometry const& geometry) {
  using mesh = typename Dx::mesh;
  using local = typename Dx::local_type;
  if constexpr (detail::spatial_axes<Dx> == 0) {
    const auto part = local_box<mesh>(Dx::placements, extents, context.coordinates());
    return {&context, extents, local(part.extents()), geometry.padding_before, geometry.padding_after};
  } else {
    const halo_plan<mesh, 4, 2, 3> plan(Dx::placements, extents, detail::halo_windows(geometry, extents),
                                        context.coordinates());
    return {&context,
            extents,
            local(plan.needed().extents()),
            {plan.padding_before(0), plan.padding_before(1)},
            detail::padding_within(geometry, {plan.padding_after(0), plan.padding_after(1)}, plan.needed(), extents)};
  }
}

/// Brings the gradient of such a block to those who own its elements. Messages: those of `windowed`, back.
template <sharded_tensor Dx, class Geometry>
Dx windowed_backward(windowed_images<Dx> const& gradient, Geometry const& geometry) {
  if constexpr (detail::spatial_axes<Dx> == 0)
    return Dx(gradient.where(), gradient.extents, gradient.block);
  else
    return exchange_halo_backward<Dx, 2, 3>(gradient.where(), gradient.block, gradient.extents,
                                            detail::halo_windows(geometry, gradient.extents));
}

}  // namespace op

}  // namespace tessera
