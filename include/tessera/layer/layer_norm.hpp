#pragma once

#include <tessera/layer/row_norm.hpp>
#include <tessera/op/layer_norm.hpp>

namespace tessera {

/// Layer norm over the last dimensions, of extents `Last`, as in `layer_norm_over<last<3, 28, 28>>`: see `layer_norm`.
template <class Last, class... Options>
struct layer_norm_over : detail::row_norm_layer<Last, true, epsilon_of<std::ratio<1, 100000>>, Options...> {
  static_assert((detail::known_option<Options, detail::is_no_affine, detail::is_epsilon, detail::is_weight_init,
                                      detail::is_bias_init> &&
                 ...),
                "tessera: layer_norm has no such option; it has no_affine, epsilon_of<...>, weight_init<...>, "
                "bias_init<...> and split words");
  using base = detail::row_norm_layer<Last, true, epsilon_of<std::ratio<1, 100000>>, Options...>;

  template <class Env, class Saved, class X, class... P>
  static auto forward(Env const&, Saved& saved, X const& x, P const&... parameters) {
    auto out = [&] {
      if constexpr (base::affine)
        return op::layer_norm(x, parameters..., base::epsilon);
      else
        return op::layer_norm<base::dims>(x, base::epsilon);
    }();
    saved.x = x;
    saved.statistics = std::move(out.statistics);
    return std::move(out.y);
  }
  template <class Env, class Saved, class Dy, class Gradients, class... P>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, P const&... parameters) {
    if constexpr (!Env::wants_input_gradient) {
      op::layer_norm_backward_parameters(saved.x, dy, saved.statistics, std::get<0>(gradients), std::get<1>(gradients));
      return no_gradient{};
    } else if constexpr (base::affine) {
      return op::layer_norm_backward(saved.x, dy, saved.statistics, std::get<0>(std::tie(parameters...)),
                                     std::get<0>(gradients), std::get<1>(gradients));
    } else {
      return op::layer_norm_backward<base::dims>(saved.x, dy, saved.statistics);
    }
  }
};

/// Layer norm over the last dimension (J. Ba, J. Kiros and G. Hinton, 2016): (x - mean) / sqrt(variance + epsilon) *
/// weight + bias. Inputs of any rank from 2 on.
///
/// Options: `no_affine`, `epsilon_of<std::ratio<1, 100000>>`, `weight_init<...>` (ones), `bias_init<...>` (zeros), and
/// split words:
///
/// | split | parameters | collectives |
/// |---|---|---|
/// | `split_batch`, `split_sequence` (flow) | whole, their gradients partial | none |
/// | `split_features` (flows) | by features | one all_reduce of two sums a row forward, one
/// backward |
template <int Features, class... Options>
struct layer_norm : layer_norm_over<last<Features>, Options...> {};

}  // namespace tessera
