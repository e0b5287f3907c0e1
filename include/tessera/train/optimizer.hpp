#pragma once

#include <tessera/backend/settings.hpp>
#include <tessera/backend/transfer.hpp>
#include <tessera/train/network.hpp>
#include <tessera/train/option_check.hpp>

namespace tessera {

/// Stochastic gradient descent with momentum, as MindSpore's `Momentum`; momentum 0 is plain gradient descent.
///
/// d = g + weight_decay * p; the buffer is d in the first step, then momentum * buffer + (1 - dampening) * d; the
/// parameter moves by -learning_rate times the buffer, or times d + momentum * buffer with Nesterov (I. Sutskever,
/// J. Martens, G. Dahl and G. Hinton, ICML 2013). Every rank updates its own blocks: no communication. `check` and
/// `step` throw where an option is negative or not finite.
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
    bool remembers = false;  ///< whether the buffers have elements: they do with a momentum
  };

  /// How many values it remembers of each element (`training_memory`).
  constexpr index_t values_per_element() const { return momentum != 0 ? 1 : 0; }

  /// For checkpoints: its name, `f(name, option)` for each option, and `f(name, blocks)` for what it remembers, with a
  /// block for each trainable parameter.
  static constexpr char const* name = "momentum";
  template <class F>
  void visit_options(F&& f) {
    f("learning_rate", learning_rate);
    f("momentum", momentum);
    f("dampening", dampening);
    f("weight_decay", weight_decay);
    f("nesterov", nesterov);
  }
  template <class State, class F>
  void visit_state(State& s, F&& f) const {
    if (momentum == 0) return;
    if (s.steps > 0 && !s.remembers)
      throw error("a momentum that was 0 in the last step, of which nothing is remembered", "a step since it was set",
                  "save after the next step");
    f("momentum", s.buffers);
  }

  /// Memory for what is remembered of these parameters, zeros. `step` calls it where no step came before, and in the
  /// first one with a momentum.
  template <class Kernels, class T, class Memory>
  void prepare(Kernels& kernels, std::vector<parameter_view<T>> const& parameters, state<T, Memory>& s) const {
    using buffer = tensor<T, 1, Memory>;
    s.buffers.clear();
    s.remembers = momentum != 0;
    for (auto const& p : parameters)
      if (p.trainable)
        s.buffers.push_back(detail::filled<buffer>(kernels, s.remembers ? p.value.extents : shape<1>{}, T{0}));
  }

  /// Throws where an option makes no sense.
  void check() const {
    detail::require_not_negative("the learning_rate", learning_rate);
    detail::require_not_negative("the momentum", momentum);
    detail::require_not_negative("the dampening", dampening);
    detail::require_not_negative("the weight_decay", weight_decay);
  }

  /// Moves all trainable parameters by their gradients.
  template <class Kernels, class T, class Memory>
  void step(Kernels& kernels, std::vector<parameter_view<T>> const& parameters, state<T, Memory>& s) const {
    check();
    const bool first = s.steps++ == 0;
    if (first || (momentum != 0 && !s.remembers)) prepare(kernels, parameters, s);
    std::size_t i = 0;
    for (auto const& p : parameters) {
      if (!p.trainable) continue;
      kernels.sgd_update(p.value, p.gradient, s.buffers[i++].view(),
                         sgd_step{learning_rate, momentum, dampening, weight_decay, nesterov, first});
    }
  }
};

/// Plain stochastic gradient descent.
constexpr momentum sgd(double learning_rate, double weight_decay = 0) {
  return {learning_rate, 0, 0, weight_decay, false};
}

}  // namespace tessera
