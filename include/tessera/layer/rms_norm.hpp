#pragma once

#include <tessera/layer/row_norm.hpp>
#include <tessera/op/rms_norm.hpp>

namespace tessera {

/// Root-mean-square norm over the last dimension (B. Zhang and R. Sennrich, NeurIPS 2019): x / sqrt(mean of x^2 +
/// epsilon) * weight. Inputs of any rank from 2 on.
///
/// Options: `no_affine`, `epsilon_of<std::ratio<1, 1000000>>`, `weight_init<...>` (ones), and split words:
///
/// | split | weight | collectives |
/// |---|---|---|
/// | `split_batch`, `split_sequence` (flow) | whole, its gradient partial | none |
/// | `split_features` (flows) | by features | one all_reduce of one sum a row, forward and backward |
template <int Features, class... Options>
struct rms_norm : detail::row_norm_layer<last<Features>, false, epsilon_of<std::ratio<1, 1000000>>, Options...> {
  static_assert((detail::known_option<Options, detail::is_no_affine, detail::is_epsilon, detail::is_weight_init> &&
                 ...),
                "tessera: rms_norm has no such option; it has no_affine, epsilon_of<...>, weight_init<...> and split "
                "words");
  using base = detail::row_norm_layer<last<Features>, false, epsilon_of<std::ratio<1, 1000000>>, Options...>;

  template <class Env, class Saved, class X, class... P>
  static auto forward(Env const&, Saved& saved, X const& x, P const&... weight) {
    auto out = op::rms_norm(x, weight..., base::epsilon);
    saved.x = x;
    saved.statistics = std::move(out.statistics);
    return std::move(out.y);
  }
  template <class Env, class Saved, class Dy, class Gradients, class... P>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients& gradients, P const&... weight) {
    if constexpr (!Env::wants_input_gradient) {
      op::rms_norm_backward_parameters(saved.x, dy, saved.statistics, std::get<0>(gradients));
      return no_gradient{};
    } else if constexpr (base::affine) {
      return op::rms_norm_backward(saved.x, dy, saved.statistics, weight..., std::get<0>(gradients));
    } else {
      return op::rms_norm_backward(saved.x, dy, saved.statistics);
    }
  }
};

}  // namespace tessera
