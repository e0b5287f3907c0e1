#pragma once

#include <tessera/backend/settings.hpp>
#include <tessera/backend/transfer.hpp>
#include <tessera/train/network.hpp>
#include <tessera/train/option_check.hpp>

namespace tessera {

namespace detail {

/// The running means of each trainable parameter's gradient and of its square.
template <class T, class Memory>
struct adam_moments {
  std::vector<tensor<T, 1, Memory>> first{};
  std::vector<tensor<T, 1, Memory>> second{};
  index_t steps = 0;

  /// Memory for the means of these parameters, zeros.
  template <class Kernels>
  void prepare(Kernels& kernels, std::vector<parameter_view<T>> const& parameters) {
    using moment = tensor<T, 1, Memory>;
    first.clear();
    second.clear();
    for (auto const& p : parameters) {
      if (!p.trainable) continue;
      first.push_back(filled<moment>(kernels, p.value.extents, T{0}));
      second.push_back(filled<moment>(kernels, p.value.extents, T{0}));
    }
  }
};

/// What `adam` and `adamw` have in common. `Decoupled`: the weight decay is no part of the gradient.
template <bool Decoupled>
struct adam_options {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = Decoupled ? 0.01 : 0;

  /// What the optimizer remembers of each trainable parameter.
  template <class T, class Memory>
  struct state : adam_moments<T, Memory> {};

  /// How many values it remembers of each element (`training_memory`).
  constexpr index_t values_per_element() const { return 2; }

  /// For checkpoints, as in `momentum`.
  static constexpr char const* name = Decoupled ? "adamw" : "adam";
  template <class F>
  void visit_options(F&& f) {
    f("learning_rate", learning_rate);
    f("beta1", beta1);
    f("beta2", beta2);
    f("epsilon", epsilon);
    f("weight_decay", weight_decay);
  }
  template <class State, class F>
  void visit_state(State& s, F&& f) const {
    f("exp_avg", s.first);
    f("exp_avg_sq", s.second);
  }

  /// Memory for what is remembered of these parameters. `step` calls it where no step came before.
  template <class Kernels, class T, class Memory>
  void prepare(Kernels& kernels, std::vector<parameter_view<T>> const& parameters, state<T, Memory>& s) const {
    s.prepare(kernels, parameters);
  }

  /// Throws where an option makes no sense.
  void check() const {
    require_not_negative("the learning_rate", learning_rate);
    require_share("beta1", beta1);
    require_share("beta2", beta2);
    require_not_negative("epsilon", epsilon);
    require_not_negative("the weight_decay", weight_decay);
  }

  /// Moves all trainable parameters by their gradients.
  template <class Kernels, class T, class Memory>
  void step(Kernels& kernels, std::vector<parameter_view<T>> const& parameters, state<T, Memory>& s) const {
    check();
    if (s.steps++ == 0) s.prepare(kernels, parameters);
    std::size_t i = 0;
    for (auto const& p : parameters) {
      if (!p.trainable) continue;
      kernels.adam_update(p.value, p.gradient, s.first[i].view(), s.second[i].view(),
                          adam_step{learning_rate, beta1, beta2, epsilon, weight_decay, Decoupled, s.steps});
      ++i;
    }
  }
};

}  // namespace detail

/// Adam (D. Kingma and J. Ba, ICLR 2015): d = g + weight_decay * p, m = beta1 m + (1 - beta1) d,
/// v = beta2 v + (1 - beta2) d^2, both from 0; in step t the parameter moves by
/// -learning_rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
///
/// Every rank updates its own blocks: no communication. `check` and `step` throw where an option is negative or not
/// finite, or a beta is not below 1.
using adam = detail::adam_options<false>;

/// Adam with decoupled weight decay (I. Loshchilov and F. Hutter, ICLR 2019), 0.01 unless said otherwise: the parameter
/// is first multiplied by 1 - learning_rate * weight_decay, and d = g. Throws as `adam` does.
using adamw = detail::adam_options<true>;

}  // namespace tessera
