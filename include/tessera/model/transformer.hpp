#pragma once

#include <tessera/layer/activation.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/flatten.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/multi_head_attention.hpp>
#include <tessera/layer/positions.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/residual.hpp>
#include <tessera/model/repeated.hpp>

namespace tessera::detail {

template <class Attention, int Features, int Hidden, mesh_axis... Tp>
struct transformer_block {
  using type =
      chain<residual<chain<layer_norm<Features>, Attention>>,
            residual<chain<layer_norm<Features>, linear<Features, Hidden, tessera::split_if<split_output, Tp...>>, gelu,
                           linear<Hidden, Features, tessera::split_if<split_input, Tp...>>>>>;
};

}  // namespace tessera::detail

namespace tessera::model {

/// x + attention(norm(x)), then x + wide(norm(x)) with a GELU between two linear layers: a transformer block with the
/// norms before (R. Xiong et al., ICML 2020). Each position of `encoder_block` sees all, of `decoder_block` those up to
/// itself.
///
/// With axes, heads and the wide layer are cut as in Megatron (M. Shoeybi et al., 2019); where activations arrive cut
/// by positions along the same axes, norms and sums stay so (V. Korthikanti et al., 2022): an all_gather before
/// attention and wide layer, a reduce_scatter after each, and the reverse backward. Where they arrive whole, an
/// all_reduce each.
template <int Features, int Heads, int Hidden, mesh_axis... Tp>
struct encoder_block
    : tessera::detail::transformer_block<multi_head_attention<Features, Heads, split_if<split_heads, Tp...>>, Features,
                                         Hidden, Tp...>::type {};
template <int Features, int Heads, int Hidden, mesh_axis... Tp>
struct decoder_block
    : tessera::detail::transformer_block<multi_head_attention<Features, Heads, causal, split_if<split_heads, Tp...>>,
                                         Features, Hidden, Tp...>::type {};

/// A language model in the manner of GPT-2 (A. Radford et al., 2019), from indices [B, S] to the logits of the next
/// index, [B * S, Vocabulary]: embedding and learned positions, `Layers` causal blocks, a norm, and a linear layer that
/// shares its weight with the embedding.
///
/// With axes, vocabulary, heads and wide layers are cut by them, and activations between them by positions.
/// `cross_entropy` takes the cut logits as they are.
template <int Vocabulary, int Length, int Features, int Heads, int Layers, mesh_axis... Tp>
struct gpt {
  struct words;  ///< the name of the shared weight
  using block = decoder_block<Features, Heads, 4 * Features, Tp...>;
  using composition = typename tessera::detail::blocks_between<
      tessera::detail::some_layers<embedding<Vocabulary, Features, weight_init<normal_of<std::ratio<2, 100>>>,
                                             tied<words>, split_if<split_vocabulary, Tp...>>,
                                   cut_along<1, Tp...>,
                                   learned_positions<Length, Features, weight_init<normal_of<std::ratio<1, 100>>>>>,
      block, std::make_integer_sequence<int, Layers>,
      tessera::detail::some_layers<layer_norm<Features>,
                                   linear<Features, Vocabulary, no_bias, weight_init<normal_of<std::ratio<2, 100>>>,
                                          tied<words>, split_if<split_output, Tp...>>,
                                   flatten<0, 1>>>::type;
};

}  // namespace tessera::model
