#pragma once

#include <tessera/core/sharded.hpp>

#include <string_view>

namespace tessera {

/// What a layer's forward and backward know of their surroundings.
///
/// `Bound` is the layer on its mesh (`bound_layer`), so questions about cuts are answered while compiling.
template <context Context, class Bound, bool WantsInputGradient>
struct layer_environment {
  using mesh = typename Context::mesh;

  Context& where;
  /// Whether batch statistics and dropout are on.
  bool training = true;

  /// Whether backward must return the input's gradient; the first layer of a model need not.
  static constexpr bool wants_input_gradient = WantsInputGradient;
  /// The mesh axes that cut one of the letters of the layer's rules.
  static constexpr axis_set axes_cutting(std::string_view letters) { return Bound::resolved.axes_cutting(letters); }
  /// Whether an axis of more than one device cuts one of the letters.
  static constexpr bool is_cut(std::string_view letters) { return mesh::group_size(axes_cutting(letters)) > 1; }

  auto& kernels() const { return where.kernels(); }
  /// The ranks that differ only along the axes that cut one of the letters.
  auto& group(std::string_view letters) const { return where.group(axes_cutting(letters)); }
  /// Whether this rank is the first of that group: the one that adds what is to be added once.
  bool is_first(std::string_view letters) const {
    return mesh::group_rank(axes_cutting(letters), where.coordinates()) == 0;
  }
};

/// What backward returns where nobody wants the input's gradient.
struct no_gradient {};

/// What a layer keeps that needs nothing for backward.
struct nothing_saved {};

namespace detail {

template <class X, class Dy>
constexpr auto gradient_placements() {
  auto layout = X::placements;
  for (int a = 0; a < X::mesh::axes; ++a)
    if (Dy::placements[a].is_partial()) layout[a] = Dy::placements[a];
  return layout;
}

/// The gradient of an input `X` that is linear in `Dy`: cut like the input, partial where `Dy` is.
template <class X, class Dy>
using gradient_like = relaid<X, X::rank, gradient_placements<X, Dy>()>;

}  // namespace detail

}  // namespace tessera
