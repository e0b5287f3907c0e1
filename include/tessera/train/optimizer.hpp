#pragma once

#include <tessera/backend/settings.hpp>
#include <tessera/train/network.hpp>

namespace tessera {

/// Stochastic gradient descent with momentum, as MindSpore's `Momentum`; momentum 0 is plain gradient descent.
///
/// d = g + weight_decay * p; the buffer is d in the first step, then momentum * buffer + (1 - dampening) * d; the
/// parameter moves by -learning_rate times the buffer, or times d + momentum * buffer with Nesterov (I. Sutskever,
/// J. Martens, G. Dahl and G. Hinton, ICML 2013). Every rank updates its own blocks: no communication.
struct momentum {
  double learning_rate = 0.01;
  double momentum = 0.9;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;

  /// What the optimizer remembers of each trainable parameter.
  template <class T, class Memory>
  struct state {
    std::vector<tensor<T, 1, Memory>> buffers{};
    index_t steps = 0;
  };

  /// Moves all trainable parameters by their gradients.
  template <class Kernels, class T, class Memory>
  void step(Kernels& kernels, std::vector<parameter_view<T>> const& parameters, state<T, Memory>& s) const {
    const bool first = s.steps++ == 0;
    std::size_t i = 0;
    for (auto const& p : parameters) {
      if (!p.trainable) continue;
      if (first) s.buffers.emplace_back(momentum != 0 ? p.value.extents : shape<1>{});
      kernels.sgd_update(p.value, p.gradient, s.buffers[i++].view(),
                         {learning_rate, momentum, dampening, weight_decay, nesterov, first});
    }
  }
};

/// Plain stochastic gradient descent.
constexpr momentum sgd(double learning_rate, double weight_decay = 0) {
  return {learning_rate, 0, 0, weight_decay, false};
}

}  // namespace tessera
