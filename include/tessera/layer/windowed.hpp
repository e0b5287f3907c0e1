#pragma once

#include <tessera/layer/node.hpp>
#include <tessera/op/windowed.hpp>

namespace tessera {

namespace detail {

/// The memory of the block that `op::windowed` gives, or of its transpose, on one device.
struct windowed_bytes {
  bool shared = true;    ///< it is the block of the images
  index_t block = 0;     ///< bytes of the block, where an axis cuts height or width
  index_t messages = 0;  ///< bytes of what is sent and received, or more
};
template <class Mesh>
constexpr windowed_bytes windowed_bytes_of(placements<Mesh::axes> const& layout, shape<4> const& extents,
                                           std::array<halo_window, 2> const& windows, decltype(Mesh::sizes) const& at,
                                           index_t element_bytes) {
  const auto spatial = static_cast<axis_set>(layout.shard_axes(2) | layout.shard_axes(3));
  if (Mesh::cutting(spatial) == 0) return {};
  const halo_plan<Mesh, 4, 2, 3> plan(layout, extents, windows, at);
  const halo_traffic in = plan.received();
  const halo_traffic out = plan.sent();
  const auto rounding = static_cast<index_t>(in.messages + out.messages) * block_bytes(1, 1);
  return {in.messages == 0 && plan.needed() == plan.own(), block_bytes(plan.needed().size(), element_bytes),
          (in.elements + out.elements) * element_bytes + rounding};
}

}  // namespace detail

/// Base of layers that walk images by windows of a `Geometry`: lists the messages that ranks exchange where height or
/// width is cut, for the input forward and for its gradient backward.
template <auto Geometry>
struct windowed_layer {
  static constexpr auto geometry = Geometry;
  /// Letters of the rules: where no axis cuts one of them, nothing is exchanged.
  static constexpr std::string_view calls_when_cut = "hw";

  template <auto Extents, class Mesh>
  static constexpr void calls(phase when, resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    if (when == phase::forward)
      append_halo<Mesh>(list, when, Extents, r.operand[0], detail::halo_windows(geometry, Extents));
  }
  /// What both passes have at one time beside images and gradients.
  template <auto Extents, class Mesh>
  static constexpr index_t windowed_scratch(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                            index_t element_bytes) {
    const auto made = detail::windowed_bytes_of<Mesh>(r.operand[0], Extents, detail::halo_windows(geometry, Extents),
                                                      at, element_bytes);
    return made.block + made.messages;
  }
  template <auto Extents, class Mesh>
  static constexpr void input_gradient_calls(resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    append_halo<Mesh>(list, phase::backward, Extents, r.operand[0], detail::halo_windows(geometry, Extents));
  }
};

}  // namespace tessera
