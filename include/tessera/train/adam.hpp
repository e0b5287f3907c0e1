#pragma once

#include <tessera/backend/settings.hpp>
#include <tessera/train/network.hpp>

namespace tessera {

namespace detail {

/// The running means of each trainable parameter's gradient and of its square.
template <class T, class Memory>
struct adam_moments {
  std::vector<tensor<T, 1, Memory>> first{};
  std::vector<tensor<T, 1, Memory>> second{};
  index_t steps = 0;
};

template <class Optimizer, class Kernels, class T, class Memory>
void adam_update_all(Optimizer const& with, bool decoupled, Kernels& kernels,
                     std::vector<parameter_view<T>> const& parameters, adam_moments<T, Memory>& s) {
  const bool fresh = s.steps++ == 0;
  std::size_t i = 0;
  for (auto const& p : parameters) {
    if (!p.trainable) continue;
    if (fresh) {
      s.first.emplace_back(p.value.extents, T{0});
      s.second.emplace_back(p.value.extents, T{0});
    }
    kernels.adam_update(
        p.value, p.gradient, s.first[i].view(), s.second[i].view(),
        {with.learning_rate, with.beta1, with.beta2, with.epsilon, with.weight_decay, decoupled, s.steps});
    ++i;
  }
}

}  // namespace detail

/// Adam (D. Kingma and J. Ba, ICLR 2015): d = g + weight_decay * p, m = beta1 m + (1 - beta1) d,
/// v = beta2 v + (1 - beta2) d^2, both from 0; in step t the parameter moves by
/// -learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
///
/// Every rank updates its own blocks: no communication.
struct adam {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;

  /// What the optimizer remembers of each trainable parameter.
  template <class T, class Memory>
  struct state : detail::adam_moments<T, Memory> {};

  /// Moves all trainable parameters by their gradients.
  template <class Kernels, class T, class Memory>
  void step(Kernels& kernels, std::vector<parameter_view<T>> const& parameters, state<T, Memory>& s) const {
    detail::adam_update_all(*this, false, kernels, parameters, s);
  }
};

/// Adam with decoupled weight decay (I. Loshchilov and F. Hutter, ICLR 2019): the parameter is first multiplied by
/// 1 - learning_rate * weight_decay, and d = g.
struct adamw {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;

  /// What the optimizer remembers of each trainable parameter.
  template <class T, class Memory>
  struct state : detail::adam_moments<T, Memory> {};

  /// Moves all trainable parameters by their gradients.
  template <class Kernels, class T, class Memory>
  void step(Kernels& kernels, std::vector<parameter_view<T>> const& parameters, state<T, Memory>& s) const {
    detail::adam_update_all(*this, true, kernels, parameters, s);
  }
};

}  // namespace tessera
