#pragma once

#include <tessera/model/transformer.hpp>

#include <utility>

namespace planned {

namespace ts = tessera;

/// Of sequences [B, S, Features] the positions that were masked: [B, Count, Features]. A plan needs of a layer only how
/// it can be cut and what it moves, so that is all there is.
// [layer]
template <ts::index_t Count>
struct masked_positions {
  using words = ts::split_words<>;
  using parameters = ts::parameter_list<>;
  static constexpr bool gradient_is_linear = true;

  template <auto Extents>
  static constexpr ts::index_rules rules() {
    return {"nsf->npf", {{'n', "batch"}, {'f', "features"}}};
  }
  template <auto Extents>
  static constexpr auto output() {
    return ts::shape<3>{{Extents[0], Count, Extents[2]}};
  }
  /// A copy forward; backward writes the gradient of all positions.
  template <auto Extents, class Mesh, class Add>
  static constexpr void work(ts::resolved_layer<Mesh::axes> const& r, ts::index_t unknown, Add& add) {
    const auto size = [&](auto const& layout, auto const& extents) {
      return ts::largest_size(Mesh::value, layout, extents, unknown);
    };
    add(ts::layer_pass::forward, 0.0, 2 * size(r.output, output<Extents>()));
    add(ts::layer_pass::input, 0.0, size(r.output, output<Extents>()) + size(r.operand[0], Extents));
  }
  static constexpr ts::kept_memory keeps{};
};
// [layer]

/// BERT-Large (J. Devlin et al., NAACL 2019) as it is first trained, on sequences of 128: 24 blocks, and the logits of
/// 20 masked positions. Norms come before attention and wide layers instead of after them, sentences have no embedding,
/// and the next sentence is not predicted; none of it is much of the time.
template <int Vocabulary, class Blocks = std::make_integer_sequence<int, 24>>
struct bert_large;
template <int Vocabulary, int... I>
struct bert_large<Vocabulary, std::integer_sequence<int, I...>> {
  struct words;
  template <int>
  using block = ts::model::encoder_block<1024, 16, 4096>;
  using composition =
      ts::chain<ts::embedding<Vocabulary, 1024, ts::tied<words>>, ts::learned_positions<512, 1024>,
                ts::layer_norm<1024>, block<I>..., masked_positions<20>, ts::linear<1024, 1024>, ts::gelu,
                ts::layer_norm<1024>, ts::linear<1024, Vocabulary, ts::no_bias, ts::tied<words>>, ts::flatten<0, 1>>;
};

}  // namespace planned
