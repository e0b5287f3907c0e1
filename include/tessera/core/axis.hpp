#pragma once

#include <type_traits>

namespace tessera {

/// A mesh axis is a tag type that inherits from `axis` with the number of devices along it:
///
///     struct dp : tessera::axis<2> {};
///
/// so that it prints as its own name in types, errors and plans.
template <int Size>
struct axis {
  static_assert(Size >= 1, "tessera: a mesh axis needs at least one device; write axis<1> or more");
  /// Number of devices along the axis.
  static constexpr int size = Size;
};

namespace detail {
template <int Size>
std::integral_constant<int, Size> axis_base(axis<Size> const&);
}

/// Satisfied by tag types that inherit from `axis<Size>`.
template <class A>
concept mesh_axis = requires(A const& a) {
  detail::axis_base(a);
};

}  // namespace tessera
