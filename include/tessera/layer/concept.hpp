#pragma once

#include <tessera/layer/option.hpp>
#include <tessera/layer/parameter.hpp>
#include <tessera/op/rules.hpp>

#include <concepts>

namespace tessera {

/// What a type needs to be a layer of a chain. The layers of the library are written with nothing else;
/// examples/custom_layer.cpp is one from outside.
///
/// | member | meaning |
/// |---|---|
/// | `words` | its split words: `split_words<Options...>`, or `split_words<>` for none |
/// | `parameters` | `parameter_list<...>` of `parameter` and, after them, `state` types |
/// | `rules<Extents>()` | `index_rules`: operand 0 is the input, operand k the k-th parameter; every layout follows
/// from them | | `output<Extents>()` | the output's extents from the input's; the place to refuse an input that does
/// not fit | | `forward(env, saved, x, parameters...)` | the output; `x` and the parameters arrive in the layouts of
/// the rules | | `backward(env, saved, dy, gradients, parameters...)` | the input's gradient, or `no_gradient`; writes
/// each element of the tuple `gradients` |
///
/// Optional members:
///
/// | member | meaning |
/// |---|---|
/// | `saved<X>` | what forward leaves for backward, for an input of type `X` |
/// | `calls<Extents, Mesh>(phase, resolved, list)` | appends the collectives that forward and backward make themselves
/// | | `gradient_is_linear = true` | backward is linear in `dy` alone: a partial `dy` may pass and be reduced later |
/// | `input_extents` | extents of an input, for a layer that may come first in a model |
/// | `input_element` | the type of the input's elements, where they are not those of the model: indices |
/// | `work<Extents, Mesh>(resolved, unknown, add)` | calls `add(layer_pass, flops, elements[, kernel_kind])` for each
/// kernel, where its work does not follow from the weights: see layer/kernels.hpp | | `kernels` | the `kernel_kind` of the
/// layer's kernels, for prices of steps: see layer/kernel_kind.hpp |
/// | `keeps`, or `kept<Extents, Mesh>(resolved, at, element_bytes)` | a `kept_memory`: the memory of `saved`, for plans
/// | | `split_check<Known>` | a `static_assert(Known, ...)` that lists the split words there are |
///
/// `env` is a `layer_environment`. Layouts of what forward and backward return are checked against the rules.
template <class L, auto Extents>
concept registered_layer = requires {
  typename L::words;
  typename L::parameters;
  { L::template rules<Extents>() } -> std::same_as<index_rules>;
};

}  // namespace tessera
