#pragma once

#include <tessera/layer/node.hpp>
#include <tessera/op/embedding.hpp>

namespace tessera {

/// The row of an embedding that is padding: it starts at zero and never learns.
template <index_t Index>
struct padding_of {
  static_assert(Index >= 0, "tessera: padding_of names a row of the embedding; rows count from 0");
  static constexpr index_t value = Index;
};

namespace detail {
template <class X>
struct is_padding : std::false_type {};
template <index_t Index>
struct is_padding<padding_of<Index>> : std::true_type {};
struct without_padding {
  static constexpr index_t value = no_padding;
};

/// `Init`, but zero in the row `Padding` of a weight of `Features` columns.
template <class Init, index_t Padding, index_t Features>
struct with_padding {
  static double value(philox const& draw, index_t i, fans f) {
    return i / Features == Padding ? 0.0 : static_cast<double>(Init::value(draw, i, f));
  }
};
}  // namespace detail

/// The rows of a weight [Vocabulary, Features] that indices name. The input is indices of std::int64_t, [N] or [N, S],
/// so this layer comes first in a model; [N, S] unless the model says `input<dynamic>`.
///
/// Options: `padding_of<Index>`, `weight_init<...>` (standard normal), `tied<Name>`, and split words:
///
/// | split | weight | output | backward |
/// |---|---|---|---|
/// | `split_batch`, `split_sequence` (flow) | whole | cut alike | its gradient partial |
/// | `split_vocabulary` | by rows | partial sum | its gradient cut |
/// | `split_features` | by columns | cut by features | its gradient cut |
///
/// No collectives. Throws where an index names no row, on all ranks that have this index.
template <index_t Vocabulary, index_t Features, class... Options>
struct embedding {
  static_assert((detail::known_option<Options, detail::is_padding, detail::is_weight_init, detail::is_tied> && ...),
                "tessera: embedding has no such option; it has padding_of<...>, weight_init<...>, tied<...> and split "
                "words");
  static constexpr index_t padding =
      detail::option_or_t<detail::is_padding, detail::without_padding, Options...>::value;
  static_assert(padding < Vocabulary,
                "tessera: padding_of names a row that the embedding does not have; name one below its vocabulary");
  using words = split_words<Options...>;
  using input_element = std::int64_t;

  struct weight
      : parameter<detail::with_padding<typename detail::option_or_t<detail::is_weight_init,
                                                                    weight_init<standard_normal>, Options...>::type,
                                       padding, Features>,
                  Vocabulary, Features> {
    static constexpr std::string_view name = "weight";
    using tie = detail::tie_name<Options...>;
  };
  using parameters = parameter_list<weight>;

  template <bool Known>
  struct split_check {
    static_assert(Known,
                  "tessera: embedding has no such split; it has split_batch, split_sequence, split_vocabulary and "
                  "split_features");
  };
  static constexpr shape<2> input_extents{{dynamic, dynamic}};

  template <auto Extents>
  static constexpr index_rules rules() {
    return detail::embedding_op<Extents.rank>::rules;
  }
  template <auto Extents>
  static constexpr auto output() {
    shape<Extents.rank + 1> out;
    for (int d = 0; d < Extents.rank; ++d) out[d] = Extents[d];
    out[Extents.rank] = Features;
    return out;
  }

  template <class I>
  struct saved {
    I indices;
  };
  static constexpr kept_memory keeps{.input = true};
  template <class Env, class Saved, class I, class W>
  static auto forward(Env const&, Saved& saved, I const& indices, W const& w) {
    saved.indices = indices;
    return op::embedding(indices, w);
  }
  template <class Env, class Saved, class Dy, class Gradients, class W>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, W const&) {
    static_assert(!Env::wants_input_gradient,
                  "tessera: indices have no gradient; put the embedding before everything that learns");
    op::embedding_backward(saved.indices, dy, std::get<0>(gradients), padding);
    return no_gradient{};
  }
};

}  // namespace tessera
