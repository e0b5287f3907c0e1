#pragma once

#include <tessera/core/block.hpp>

#include <cstdint>
#include <type_traits>

namespace tessera {

/// A read-only block argument of a kernel. The element type is deduced from the outputs alone, so a mutable block may
/// be passed as well.
template <class T, int Rank>
using operand = std::type_identity_t<block<T const, Rank>>;

/// Cross-entropy as the rank sees it that holds `logits` for the classes from `class_offset` on.
template <class T>
struct cross_entropy_part {
  index_t classes = 0;               ///< over all ranks
  index_t class_offset = 0;          ///< global number of the first local class
  std::int64_t ignore_index = -100;  ///< rows with this label count nowhere
  double label_smoothing = 0;        ///< 0 to 1
  T const* class_weights = nullptr;  ///< weights of the local classes; null: all one

  /// Rows of the buffer of sums for integer labels: sum of exponentials, target logit, then, if needed, the target's
  /// weight, then, with smoothing, the weighted sum of logits and the sum of weights.
  constexpr index_t sums() const { return label_smoothing > 0 ? 5 : class_weights != nullptr ? 3 : 2; }
  /// Rows of the buffer of sums for probability targets: sum of exponentials, weighted target logits, their weights.
  static constexpr index_t probability_sums() { return 3; }
};

/// Sums over local rows: the loss, and the weights that the mean divides by.
struct cross_entropy_totals {
  double loss = 0;
  double weight = 0;
};

/// One step of stochastic gradient descent: d = g + weight_decay * p; the buffer becomes d on the first step, then
/// momentum * buffer + (1 - dampening) * d; p -= learning_rate * (buffer, or d + momentum * buffer with Nesterov).
struct sgd_step {
  double learning_rate = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first_step = false;
};

/// One step of Adam with gradient d: m = beta1 m + (1 - beta1) d and v = beta2 v + (1 - beta2) d^2; then
/// p -= learning_rate * (m / (1 - beta1^number)) / (sqrt(v / (1 - beta2^number)) + epsilon).
struct adam_step {
  double learning_rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  double weight_decay = 0;
  bool decoupled = false;  ///< p *= 1 - learning_rate * weight_decay first, instead of d = g + weight_decay * p
  index_t number = 1;      ///< of the step, from 1
};

}  // namespace tessera
