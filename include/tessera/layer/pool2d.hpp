#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/windowed.hpp>
#include <tessera/op/pool2d.hpp>

namespace tessera {

namespace detail {

template <class Window, class... Options>
constexpr pool2d_geometry pool2d_geometry_of() {
  pool2d_geometry g;
  g.kernel = {Window::kernel[0], Window::kernel[1]};
  g.stride = {Window::stride[0], Window::stride[1]};
  g.padding_before = {Window::padding[0], Window::padding[1]};
  g.padding_after = g.padding_before;
  g.dilation = {Window::dilation[0], Window::dilation[1]};
  g.ceil_mode = has_option<tessera::ceil_mode, Options...>;
  g.count_include_pad = !has_option<exclude_padding, Options...>;
  return g;
}

/// What all poolings have in common. They have no parameters, and backward is linear in the gradient.
template <class... Options>
struct pool2d_layer {
  static_assert((known_option<Options, is_ceil_mode, is_exclude_padding> && ...),
                "tessera: poolings have no such option; they have ceil_mode, exclude_padding and split words");
  using words = split_words<Options...>;
  static constexpr kernel_kind kernels = kernel_kind::pooling;
  using parameters = parameter_list<>;
  static constexpr bool gradient_is_linear = true;
  template <bool Known>
  struct split_check {
    static_assert(
        Known,
        "tessera: this pooling has no such split; it has split_batch, split_channels, split_height and split_width");
  };
  template <auto Extents>
  static constexpr index_rules rules() {
    return pool2d_rules(linearity::none);
  }
};

template <auto Geometry, auto Extents>
constexpr shape<4> pooled() {
  static_assert(Extents.rank == 4, "tessera: poolings take images [N, C, H, W]; put them before flatten");
  return windowed_extents<Geometry, Extents, Extents[1]>();
}

}  // namespace detail

/// Maximum over `window<Size, Stride, Padding, Dilation>` of [N, C, H, W]; padding counts as minus infinity.
///
/// Options: `ceil_mode`, split words. Splits: batch, channels, height and width flow through. No collectives; under a
/// cut of height or width ranks exchange the rows and columns that windows share.
template <class Window, class... Options>
struct max_pool2d : detail::pool2d_layer<Options...>, windowed_layer<detail::pool2d_geometry_of<Window, Options...>()> {
  static constexpr pool2d_geometry geometry = detail::pool2d_geometry_of<Window, Options...>();
  template <auto Extents>
  static constexpr auto output() {
    return detail::pooled<geometry, Extents>();
  }
  template <class X>
  struct saved {
    tensor<std::int32_t, 4, typename X::context_type::backend::memory, X::context_type::backend::order> argmax;
    shape<4> extents;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                    index_t element_bytes) {
    const index_t argmax = local_bytes<Mesh>(r.output, output<Extents>(), at, sizeof(std::int32_t));
    return {.own = argmax, .scratch = max_pool2d::template windowed_scratch<Extents, Mesh>(r, at, element_bytes)};
  }
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    auto pooled = op::max_pool2d(x, geometry);
    saved = {std::move(pooled.argmax), x.extents()};
    return std::move(pooled.y);
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::max_pool2d_backward(dy, saved.argmax, saved.extents, geometry);
  }
};

/// Mean over `window<Size, Stride, Padding>` of [N, C, H, W].
///
/// Options: `ceil_mode`, `exclude_padding`, split words. Splits and messages as `max_pool2d`.
template <class Window, class... Options>
struct avg_pool2d : detail::pool2d_layer<Options...>, windowed_layer<detail::pool2d_geometry_of<Window, Options...>()> {
  static_assert(Window::dilation[0] == 1 && Window::dilation[1] == 1,
                "tessera: avg_pool2d has no dilation; leave it out of the window");
  static constexpr pool2d_geometry geometry = detail::pool2d_geometry_of<Window, Options...>();
  template <auto Extents>
  static constexpr auto output() {
    return detail::pooled<geometry, Extents>();
  }
  template <class X>
  struct saved {
    shape<4> extents;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                    index_t element_bytes) {
    return {.scratch = avg_pool2d::template windowed_scratch<Extents, Mesh>(r, at, element_bytes)};
  }
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.extents = x.extents();
    return op::avg_pool2d(x, geometry);
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::avg_pool2d_backward(dy, saved.extents, geometry);
  }
};

/// Mean of each channel's image: [N, C, 1, 1].
///
/// Splits: batch and channels flow through; height and width give a partial sum. No collectives.
template <class... Options>
struct global_avg_pool : detail::pool2d_layer<Options...> {
  template <auto Extents>
  static constexpr index_rules rules() {
    return detail::global_avg_pool_op::rules;
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents.rank == 4, "tessera: poolings take images [N, C, H, W]; put them before flatten");
    return shape<4>{{Extents[0], Extents[1], 1, 1}};
  }
  template <class X>
  struct saved {
    shape<4> extents;
    using input = X;
  };
  static constexpr kept_memory keeps{};
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.extents = x.extents();
    return op::global_avg_pool(x);
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::global_avg_pool_backward<detail::gradient_like<typename Saved::input, Dy>>(dy, saved.extents);
  }
};

/// Means over `Height` x `Width` windows that cover the image evenly: [N, C, Height, Width].
///
/// Splits: batch and channels flow through; height and width give a partial sum. No collectives.
template <int Height, int Width, class... Options>
struct adaptive_avg_pool2d : global_avg_pool<Options...> {
  static_assert(Height > 0 && Width > 0,
                "tessera: adaptive_avg_pool2d gives images of one pixel or more; correct its height and width");
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents.rank == 4, "tessera: poolings take images [N, C, H, W]; put them before flatten");
    return shape<4>{{Extents[0], Extents[1], Height, Width}};
  }
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.extents = x.extents();
    return op::adaptive_avg_pool(x, Height, Width);
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::adaptive_avg_pool_backward<detail::gradient_like<typename Saved::input, Dy>>(dy, saved.extents);
  }
};

}  // namespace tessera
