#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/windowed.hpp>
#include <tessera/op/conv2d.hpp>

namespace tessera {

namespace detail {
/// The padding, stride and dilation of a `window`.
template <class Window>
constexpr conv2d_geometry conv2d_geometry_of(index_t groups) {
  return {{Window::kernel[0], Window::kernel[1]},     {Window::stride[0], Window::stride[1]},
          {Window::padding[0], Window::padding[1]},   {Window::padding[0], Window::padding[1]},
          {Window::dilation[0], Window::dilation[1]}, groups};
}
}  // namespace detail

/// 2-D convolution (cross-correlation, zero padding) of [N, In, H, W]; the weight is [Out, In / groups, kh, kw].
///
/// `Window` is `window<Size, Stride, Padding, Dilation>` or `window2d<...>`. Options: `groups<G>`, `no_bias`,
/// `weight_init<...>` (Kaiming normal, fan out), `bias_init<...>` (zeros), and split words:
///
/// | split | parameters | output | backward |
/// |---|---|---|---|
/// | `split_batch` (flows) | whole | cut by batch | gradients of parameters partial |
/// | `split_output` | by output channel | cut by channel | input gradient partial |
/// | `split_input` | by input channel, bias whole | partial sum, the bias added once | input gradient cut |
/// | `split_channels` (groups > 1, flows) | by group | cut by channel | input gradient cut |
/// | `split_height`, `split_width` (flow) | whole | cut alike | gradients of parameters partial |
///
/// Under a cut of height or width ranks exchange the rows and columns that windows share: those of the input forward,
/// those of its gradient, or of the output's where these are fewer, backward.
template <int In, int Out, class Window, class... Options>
struct conv2d : windowed_layer<detail::conv2d_geometry_of<Window>(
                    detail::option_or_t<detail::is_groups, groups<1>, Options...>::value)> {
  static_assert(detail::is_window<Window>::value,
                "tessera: conv2d takes a window after its channels; write conv2d<In, Out, window<3>> or window2d<...>");
  static_assert((detail::known_option<Options, detail::is_groups, detail::is_no_bias, detail::is_weight_init,
                                      detail::is_bias_init> &&
                 ...),
                "tessera: conv2d has no such option; it has groups<...>, no_bias, weight_init<...>, bias_init<...> and "
                "split words");
  static constexpr int group_count = detail::option_or_t<detail::is_groups, groups<1>, Options...>::value;
  static_assert(
      group_count > 0 && In % group_count == 0 && Out % group_count == 0,
      "tessera: conv2d needs input and output channels that the number of groups divides; choose another number "
      "of groups or of channels");
  static constexpr bool has_bias = !detail::has_option<no_bias, Options...>;
  static constexpr conv2d_geometry geometry = detail::conv2d_geometry_of<Window>(group_count);
  using words = split_words<Options...>;
  static constexpr kernel_kind kernels = kernel_kind::convolution;

  struct weight : parameter<typename detail::option_or_t<detail::is_weight_init, weight_init<kaiming_normal<fan::out>>,
                                                         Options...>::type,
                            Out, In / group_count, Window::kernel[0], Window::kernel[1]> {
    static constexpr std::string_view name = "weight";
  };
  struct bias : parameter<typename detail::option_or_t<detail::is_bias_init, bias_init<zeros>, Options...>::type, Out> {
    static constexpr std::string_view name = "bias";
  };
  using parameters = std::conditional_t<has_bias, parameter_list<weight, bias>, parameter_list<weight>>;

  template <bool Known>
  struct split_check {
    static_assert(Known,
                  "tessera: conv2d has no such split; it has split_batch, split_height, split_width, and split_output "
                  "and split_input without groups, or split_channels with groups");
  };
  static constexpr shape<4> input_extents{{dynamic, In, dynamic, dynamic}};

  template <auto Extents>
  static constexpr index_rules rules() {
    return detail::conv2d_rules(has_bias ? "nchw,ocij+o->nohw" : "nchw,ocij->nohw",
                                has_bias ? "nghw,gcij+g->nghw" : "nghw,gcij->nghw", group_count, linearity::none);
  }
  template <auto Extents>
  static constexpr auto output() {
    static_assert(Extents.rank == 4, "tessera: conv2d takes images [N, C, H, W]; put it before flatten");
    static_assert(Extents[1] == In || Extents[1] == dynamic,
                  "tessera: the input of conv2d does not have In channels; make In the channels of what comes before");
    return detail::windowed_extents<geometry, Extents, Out>();
  }

  template <auto Extents, class Mesh>
  static constexpr void input_gradient_calls(resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    constexpr shape<4> made = output<Extents>();
    const auto of_dy = dual(r.output);
    if (detail::fetches_gradient<Mesh>(r.gradient[0], Extents, of_dy, made, geometry))
      append_halo<Mesh>(list, phase::backward, made, of_dy, detail::gradient_windows(geometry, Extents));
    else
      windowed_layer<geometry>::template input_gradient_calls<Extents, Mesh>(r, list);
  }

  template <class X>
  struct saved {
    windowed_images<X> x;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                    index_t element_bytes) {
    const auto read = detail::windowed_bytes_of<Mesh>(r.operand[0], Extents, detail::halo_windows(geometry, Extents),
                                                      at, element_bytes);
    kept_memory kept{.input = read.shared, .own = read.shared ? 0 : read.block, .scratch = read.block + read.messages};
    if (Mesh::group_size(r.axes_cutting("hw")) == 1) return kept;
    constexpr shape<4> made = output<Extents>();
    const auto of_dy = dual(r.output);
    if (detail::fetches_gradient<Mesh>(r.gradient[0], Extents, of_dy, made, geometry)) {
      const auto fetched = detail::windowed_bytes_of<Mesh>(of_dy, made, detail::gradient_windows(geometry, Extents), at,
                                                           element_bytes);
      kept.scratch = std::max(kept.scratch, fetched.block + fetched.messages);
    }
    return kept;
  }
  template <class Env, class Saved, class X, class W, class... B>
  static auto forward(Env const&, Saved& saved, X const& x, W const& w, B const&... b) {
    saved.x = op::windowed(x, geometry);
    auto y = op::conv2d<group_count>(saved.x, w, geometry);
    (op::add_bias_once(y, b), ...);
    return y;
  }
  template <class Env, class Saved, class Dy, class Gradients, class W, class... B>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, W const& w, B const&...) {
    op::conv2d_backward_weight<group_count>(dy, saved.x, std::get<0>(gradients), geometry);
    if constexpr (has_bias) op::bias_backward(dy, std::get<1>(gradients));
    if constexpr (Env::wants_input_gradient)
      return op::conv2d_backward_input<group_count>(dy, w, saved.x.extents, geometry);
    else
      return no_gradient{};
  }
};

}  // namespace tessera
