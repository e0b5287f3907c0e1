#pragma once

#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/group_norm.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>
#include <tessera/layer/pool2d.hpp>
#include <tessera/layer/positions.hpp>
#include <tessera/layer/rms_norm.hpp>

namespace tessera {

/// A layer with more split words than it was written with: the same layer in all else. For layers that do not take words
/// among their options.
template <class Layer, class... Words>
struct split_as : Layer {
  using unsplit = Layer;

 private:
  template <class... Own>
  static detail::word_list<Own..., Words...> joined(detail::word_list<Own...>);

 public:
  using words = decltype(joined(typename Layer::words{}));
};

/// A layer with more split words. Specialise it for a layer of your own that takes words among its options; without, it is
/// `split_as<Layer, Words...>`, which works for all.
template <class Layer, class... Words>
struct with_words {
  using type = split_as<Layer, Words...>;
};
template <class Layer>
struct with_words<Layer> {
  using type = Layer;
};
template <int In, int Out, class... O, class First, class... Words>
struct with_words<linear<In, Out, O...>, First, Words...> {
  using type = linear<In, Out, O..., First, Words...>;
};
template <int In, int Out, class Window, class... O, class First, class... Words>
struct with_words<conv2d<In, Out, Window, O...>, First, Words...> {
  using type = conv2d<In, Out, Window, O..., First, Words...>;
};
template <int C, class... O, class First, class... Words>
struct with_words<batch_norm2d<C, O...>, First, Words...> {
  using type = batch_norm2d<C, O..., First, Words...>;
};
template <int Groups, int C, class... O, class First, class... Words>
struct with_words<group_norm<Groups, C, O...>, First, Words...> {
  using type = group_norm<Groups, C, O..., First, Words...>;
};
template <int Features, class... O, class First, class... Words>
struct with_words<layer_norm<Features, O...>, First, Words...> {
  using type = layer_norm<Features, O..., First, Words...>;
};
template <int Features, class... O, class First, class... Words>
struct with_words<rms_norm<Features, O...>, First, Words...> {
  using type = rms_norm<Features, O..., First, Words...>;
};
template <int Features, int Heads, class... O, class First, class... Words>
struct with_words<multi_head_attention<Features, Heads, O...>, First, Words...> {
  using type = multi_head_attention<Features, Heads, O..., First, Words...>;
};
template <index_t Vocabulary, index_t Features, class... O, class First, class... Words>
struct with_words<embedding<Vocabulary, Features, O...>, First, Words...> {
  using type = embedding<Vocabulary, Features, O..., First, Words...>;
};
template <index_t Length, index_t Features, class... O, class First, class... Words>
struct with_words<learned_positions<Length, Features, O...>, First, Words...> {
  using type = learned_positions<Length, Features, O..., First, Words...>;
};
template <class Window, class... O, class First, class... Words>
struct with_words<max_pool2d<Window, O...>, First, Words...> {
  using type = max_pool2d<Window, O..., First, Words...>;
};
template <class Window, class... O, class First, class... Words>
struct with_words<avg_pool2d<Window, O...>, First, Words...> {
  using type = avg_pool2d<Window, O..., First, Words...>;
};
template <class... O, class First, class... Words>
struct with_words<global_avg_pool<O...>, First, Words...> {
  using type = global_avg_pool<O..., First, Words...>;
};

/// The text of a split word that has no type of its own.
struct word_text {
  char text[24] = {};
  int length = 0;
  constexpr word_text() = default;
  constexpr explicit word_text(std::string_view word) {
    for (const char c : word) text[length++] = c;
  }
  constexpr std::string_view view() const { return {text, static_cast<std::size_t>(length)}; }
};
/// A split word by its text, for words that are not the library's.
template <word_text Text, class... Axes>
struct split_named : split_word<Axes...> {
  static constexpr std::string_view word = Text.view();
};

namespace detail {

/// The split word of a text.
template <word_text Text, class... Axes>
constexpr auto word_of_text() {
  constexpr std::string_view word = Text.view();
  if constexpr (word == "batch")
    return std::type_identity<split_batch<Axes...>>{};
  else if constexpr (word == "output")
    return std::type_identity<split_output<Axes...>>{};
  else if constexpr (word == "input")
    return std::type_identity<split_input<Axes...>>{};
  else if constexpr (word == "channels")
    return std::type_identity<split_channels<Axes...>>{};
  else if constexpr (word == "features")
    return std::type_identity<split_features<Axes...>>{};
  else if constexpr (word == "sequence")
    return std::type_identity<split_sequence<Axes...>>{};
  else if constexpr (word == "vocabulary")
    return std::type_identity<split_vocabulary<Axes...>>{};
  else if constexpr (word == "height")
    return std::type_identity<split_height<Axes...>>{};
  else if constexpr (word == "width")
    return std::type_identity<split_width<Axes...>>{};
  else if constexpr (word == "heads")
    return std::type_identity<split_heads<Axes...>>{};
  else
    return std::type_identity<split_named<Text, Axes...>>{};
}

/// Which axes a layer's words name beside its own: one word a letter, its axes in the order in which they cut it.
struct chosen_words {
  letter_cuts cuts{};
  unsigned axes = 0;  ///< that are named
};

template <class Mesh>
constexpr named_cuts<Mesh::axes> names_of(index_rules const& rules, chosen_words const& chosen) {
  named_cuts<Mesh::axes> named;
  for (int i = 0; i < rules.count; ++i)
    for (int order = 0; order < Mesh::axes; ++order)
      for (int a = 0; a < Mesh::axes; ++a)
        if ((chosen.axes >> a & 1u) != 0 && chosen.cuts.letter[a] == rules.cuts[i].letter && chosen.cuts.order[a] == order) {
          named.list[named.count] = {a, rules.cuts[i].word, named.count};
          ++named.count;
        }
  return named;
}

constexpr bool same_cuts(int axes, letter_cuts const& a, letter_cuts const& b) {
  for (int i = 0; i < axes; ++i) {
    if (a.letter[i] != b.letter[i]) return false;
    for (int j = 0; j < axes; ++j)
      if (a.letter[i] == a.letter[j] && a.letter[i] != '-' &&
          (a.order[i] < a.order[j]) != (b.order[i] < b.order[j]))
        return false;
  }
  return true;
}

/// How a layer that is cut in a chosen way is spelled after a value: the axes that its words name, and whether a layout
/// word comes before it.
struct spelling {
  unsigned axes = 0;
  bool word = false;
};
template <class Mesh>
constexpr spelling spell_layer(index_rules const& rules, placements<Mesh::axes> const& made,
                               placements<Mesh::axes> const& taken, letter_cuts const& cuts, unsigned given) {
  unsigned all = 0;
  unsigned needed = given;  // axes whose cut cannot come with the input
  for (int a = 0; a < Mesh::axes; ++a) {
    const int cut = rules.find(cuts.letter[a]);
    if (cut < 0) continue;
    all |= 1u << a;
    if (dim_of(rules.operand(0), cuts.letter[a]) < 0 || !rules.cuts[cut].flows) needed |= 1u << a;
  }
  for (const unsigned axes : {needed, all})
    if (same_cuts(Mesh::axes, cuts_for<Mesh>(rules, made, names_of<Mesh>(rules, {cuts, axes})), cuts)) return {axes, false};
  for (const unsigned axes : {needed, all})
    if (same_cuts(Mesh::axes, cuts_for<Mesh>(rules, taken, names_of<Mesh>(rules, {cuts, axes})), cuts)) return {axes, true};
  throw error("a split of a layer that no words spell", "one that they do", "report it: it is a fault of the library");
}

}  // namespace detail

}  // namespace tessera
