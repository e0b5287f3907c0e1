#pragma once

#include <tessera/op/elementwise.hpp>
#include <tessera/op/reduce.hpp>
#include <tessera/op/softmax.hpp>
#include <tessera/redistribute/to.hpp>

namespace tessera::op {

/// Cross-entropy spelled out in small operators, so that every step of its backward is in sight:
/// `factor * sum(log(softmax(logits)) * targets)`, with factor -1 / rows for the usual mean.
///
/// Taken literally, log(0) * 0 is NaN once logits of a row differ by more than about 100 in float (700 in double);
/// `stable` computes log(softmax(x)) as one operator instead. Splits: batch, classes. Collectives: those of softmax
/// along the classes, and one all_reduce of the sum over all axes that cut the logits; of backward those of softmax.
template <sharded_tensor Logits>
class explicit_loss {
  static_assert(Logits::rank == 2,
                "tessera: explicit_loss takes logits [rows, classes]; flatten others first: flatten<0, 1> as the last "
                "layer makes rows of [N, S, classes]");

 public:
  /// `targets` are probabilities, cut like the logits.
  explicit_loss(Logits const& logits, Logits const& targets, double factor, bool stable = false)
      : targets_(targets), factor_(factor), stable_(stable) {
    if (stable) {
      log_probabilities_ = log_softmax(logits);
    } else {
      probabilities_ = softmax(logits);
      log_probabilities_ = log(probabilities_);
    }
    const auto products = mul(log_probabilities_, targets);
    const auto sum = reduce_sum(products) | to<replicated>;
    loss_ = factor * static_cast<double>(detail::element_on_host(logits.where().kernels(), sum.read().data));
  }

  /// The loss over the whole batch, the same on all ranks.
  double loss() const { return loss_; }

  /// Gradient of `scale * loss` with respect to the logits.
  Logits backward(double scale = 1) const {
    const Logits d_log = op::scale(targets_, static_cast<typename Logits::value_type>(scale * factor_));
    if (stable_) return log_softmax_backward(log_probabilities_, d_log);
    return softmax_backward(probabilities_, log_backward(probabilities_, d_log));
  }

 private:
  Logits targets_;
  Logits probabilities_{};
  Logits log_probabilities_{};
  double factor_;
  bool stable_;
  double loss_ = 0;
};

}  // namespace tessera::op
