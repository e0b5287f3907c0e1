#pragma once

#include <tessera/layer/node.hpp>
#include <tessera/op/windowed.hpp>

namespace tessera {

/// Base of layers that walk images by windows of a `Geometry`: lists the messages that ranks exchange where height or
/// width is cut, for the input forward and for its gradient backward.
template <auto Geometry>
struct windowed_layer {
  static constexpr auto geometry = Geometry;

  template <auto Extents, class Mesh>
  static constexpr void calls(phase when, resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    if (when == phase::forward)
      append_halo<Mesh>(list, when, Extents, r.operand[0], detail::halo_windows(geometry, Extents));
  }
  template <auto Extents, class Mesh>
  static constexpr void input_gradient_calls(resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    append_halo<Mesh>(list, phase::backward, Extents, r.operand[0], detail::halo_windows(geometry, Extents));
  }
};

}  // namespace tessera
