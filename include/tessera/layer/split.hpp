#pragma once

#include <tessera/core/mesh.hpp>

#include <string_view>

namespace tessera {

/// Base of the split words of layers: names a cut of the layer's rules and the mesh axes that make it.
///
/// A layer of your own may have words of its own:
///
///     template <class... Axes> struct split_bands : tessera::split_word<Axes...> {
///       static constexpr std::string_view word = "bands";
///     };
template <mesh_axis... Axes>
struct split_word {
  static_assert(sizeof...(Axes) > 0, "tessera: a split word names at least one mesh axis; leave the word out instead");
};

/// The first dimension, samples.
template <class... Axes>
struct split_batch : split_word<Axes...> {
  static constexpr std::string_view word = "batch";
};
/// What a layer produces: output features of linear, output channels of conv2d. The input is then whole.
template <class... Axes>
struct split_output : split_word<Axes...> {
  static constexpr std::string_view word = "output";
};
/// What a layer sums over: input features of linear, input channels of conv2d. The result is a partial sum.
template <class... Axes>
struct split_input : split_word<Axes...> {
  static constexpr std::string_view word = "input";
};
/// Channels of layers that treat each channel alone.
template <class... Axes>
struct split_channels : split_word<Axes...> {
  static constexpr std::string_view word = "channels";
};
/// The features of a normalisation or an embedding.
template <class... Axes>
struct split_features : split_word<Axes...> {
  static constexpr std::string_view word = "features";
};
/// The second dimension of [N, S] and [N, S, features].
template <class... Axes>
struct split_sequence : split_word<Axes...> {
  static constexpr std::string_view word = "sequence";
};
/// The rows of an embedding. The result is a partial sum.
template <class... Axes>
struct split_vocabulary : split_word<Axes...> {
  static constexpr std::string_view word = "vocabulary";
};
template <class... Axes>
struct split_height : split_word<Axes...> {
  static constexpr std::string_view word = "height";
};
template <class... Axes>
struct split_width : split_word<Axes...> {
  static constexpr std::string_view word = "width";
};
/// Whole heads of attention.
template <class... Axes>
struct split_heads : split_word<Axes...> {
  static constexpr std::string_view word = "heads";
};

/// No split, as an option.
struct no_split {};

namespace detail {
template <template <class...> class Word, class... Axes>
struct split_if {
  using type = Word<Axes...>;
};
template <template <class...> class Word>
struct split_if<Word> {
  using type = no_split;
};
}  // namespace detail

/// `Word<Axes...>`, or no split where there are no axes: for models that are written once for any number of them.
template <template <class...> class Word, mesh_axis... Axes>
using split_if = typename detail::split_if<Word, Axes...>::type;

namespace detail {
template <class... Axes>
std::true_type is_split_word(split_word<Axes...> const&);
}

/// Satisfied by types that inherit from `split_word`.
template <class W>
concept split_policy = requires(W const& w) {
  detail::is_split_word(w);
  { W::word } -> std::convertible_to<std::string_view>;
};

}  // namespace tessera
