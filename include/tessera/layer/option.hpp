#pragma once

#include <tessera/core/shape.hpp>
#include <tessera/layer/split.hpp>

#include <ratio>
#include <tuple>
#include <type_traits>

namespace tessera {

/// A square window: kernel, stride, padding and dilation of convolutions and poolings.
template <int Size, int Stride = 1, int Padding = 0, int Dilation = 1>
struct window {
  static_assert(Size > 0 && Stride > 0 && Padding >= 0 && Dilation > 0,
                "tessera: a window has a positive size, stride and dilation, and a padding of 0 or more; correct its "
                "numbers");
  static constexpr int kernel[2] = {Size, Size};
  static constexpr int stride[2] = {Stride, Stride};
  static constexpr int padding[2] = {Padding, Padding};
  static constexpr int dilation[2] = {Dilation, Dilation};
};
/// A window with a height and a width of its own for each.
template <int KernelH, int KernelW, int StrideH = 1, int StrideW = 1, int PaddingH = 0, int PaddingW = 0,
          int DilationH = 1, int DilationW = 1>
struct window2d {
  static_assert(KernelH > 0 && KernelW > 0 && StrideH > 0 && StrideW > 0 && PaddingH >= 0 && PaddingW >= 0 &&
                    DilationH > 0 && DilationW > 0,
                "tessera: a window has a positive size, stride and dilation, and a padding of 0 or more; correct its "
                "numbers");
  static constexpr int kernel[2] = {KernelH, KernelW};
  static constexpr int stride[2] = {StrideH, StrideW};
  static constexpr int padding[2] = {PaddingH, PaddingW};
  static constexpr int dilation[2] = {DilationH, DilationW};
};
/// Number of groups of a convolution.
template <int N>
struct groups {
  static constexpr int value = N;
};
/// Leaves the bias out.
struct no_bias {};
/// How the weight starts.
template <class Init>
struct weight_init {
  using type = Init;
};
/// How the bias starts.
template <class Init>
struct bias_init {
  using type = Init;
};
/// The weight is that of all layers with the same name, a type: an embedding and the `linear` before the loss, say.
/// They have one weight between them, of the same extents and layout; it starts as the first of them says, and its
/// gradient is the sum of theirs.
template <class Name>
struct tied {
  using name = Name;
};
/// Share of the batch in running statistics, as `std::ratio<1, 10>`.
template <class Ratio>
struct momentum_of {
  static constexpr double value = static_cast<double>(Ratio::num) / static_cast<double>(Ratio::den);
};
/// What is added to a variance before its root is taken, as `std::ratio<1, 100000>`.
template <class Ratio>
struct epsilon_of {
  static constexpr double value = static_cast<double>(Ratio::num) / static_cast<double>(Ratio::den);
};
/// Leaves scale and shift out of a normalisation.
struct no_affine {};
/// Rounds the output extents of a pooling up.
struct ceil_mode {};
/// Averages over what lies inside the input only.
struct exclude_padding {};
/// Attention of a position to itself and those before it.
struct causal {};

namespace detail {

/// Extents of a window's results, static like those of its input; `Channels` of them.
template <auto Geometry, auto Extents, index_t Channels>
constexpr shape<4> windowed_extents() {
  constexpr auto along = [](int d) {
    return Extents[2 + d] == dynamic ? dynamic : Geometry.output_extent(d, Extents[2 + d]);
  };
  static_assert(along(0) != 0 && along(1) != 0,
                "tessera: the window is larger than the padded image; make the window smaller, or the image or its "
                "padding larger");
  return {{Extents[0], Channels, along(0), along(1)}};
}

template <class X>
struct is_groups : std::false_type {};
template <int N>
struct is_groups<groups<N>> : std::true_type {};
template <class X>
struct is_no_bias : std::is_same<X, no_bias> {};
template <class X>
struct is_no_affine : std::is_same<X, no_affine> {};
template <class X>
struct is_causal : std::is_same<X, causal> {};
template <class X>
struct is_ceil_mode : std::is_same<X, ceil_mode> {};
template <class X>
struct is_exclude_padding : std::is_same<X, exclude_padding> {};
template <class X>
struct is_weight_init : std::false_type {};
template <class I>
struct is_weight_init<weight_init<I>> : std::true_type {};
template <class X>
struct is_bias_init : std::false_type {};
template <class I>
struct is_bias_init<bias_init<I>> : std::true_type {};
template <class X>
struct is_tied : std::false_type {};
template <class Name>
struct is_tied<tied<Name>> : std::true_type {};
template <class X>
struct is_momentum : std::false_type {};
template <class R>
struct is_momentum<momentum_of<R>> : std::true_type {};
template <class X>
struct is_epsilon : std::false_type {};
template <class R>
struct is_epsilon<epsilon_of<R>> : std::true_type {};
template <class X>
    struct is_window : std::bool_constant < requires {
  X::kernel[0] + X::dilation[0];
} > {};

/// The first of `Options` that satisfies `Is`, else `Default`.
template <template <class> class Is, class Default, class... Options>
struct option_or {
  using type = Default;
};
template <template <class> class Is, class Default, class First, class... Rest>
struct option_or<Is, Default, First, Rest...> {
  using type =
      typename std::conditional_t<Is<First>::value, std::type_identity<First>, option_or<Is, Default, Rest...>>::type;
};
template <template <class> class Is, class Default, class... Options>
using option_or_t = typename option_or<Is, Default, Options...>::type;

/// The name in the option `tied<Name>`, void where there is none.
template <class... Options>
using tie_name = typename option_or_t<is_tied, tied<void>, Options...>::name;

/// Whether an option is a split word or one of those that a layer has: an option that nobody reads would mislead.
template <class Option, template <class> class... Is>
inline constexpr bool known_option = split_policy<Option> || std::is_same_v<Option, no_split> ||
                                     (Is<Option>::value || ...);

/// Whether the option is among them.
template <class Option, class... Options>
inline constexpr bool has_option = (std::is_same_v<Option, Options> || ...);

/// The split words among the options.
template <class... Words>
struct word_list {};
template <class List, class... Options>
struct words_of;
template <class... Words>
struct words_of<word_list<Words...>> {
  using type = word_list<Words...>;
};
template <class... Words, class First, class... Rest>
struct words_of<word_list<Words...>, First, Rest...> {
  using type = typename std::conditional_t<split_policy<First>, words_of<word_list<Words..., First>, Rest...>,
                                           words_of<word_list<Words...>, Rest...>>::type;
};

}  // namespace detail

/// The split words among a layer's options, as the member `words` that every layer has.
template <class... Options>
using split_words = typename detail::words_of<detail::word_list<>, Options...>::type;

}  // namespace tessera
