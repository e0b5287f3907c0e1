#pragma once

#include <tessera/core/shape.hpp>

#include <cmath>
#include <optional>

namespace tessera::detail {

/// The loss of a batch from those of its parts, one after the other.
class loss_total {
 public:
  /// Takes in the loss of a part of so many rows. Returns what its mean divided by: the factor by which gradients of
  /// the part become those of its sum. 1 for losses that are sums.
  template <class Loss>
  double add(Loss const& part, index_t rows) {
    const std::optional<double> mean_of = divisor_of(part, rows);
    share_ = 1;
    if (!mean_of) {
      value_ += part.loss();
      return 1;
    }
    divisor_ += *mean_of;
    if (divisor_ > 0) share_ = *mean_of / divisor_;
    if (share_ == 1)
      value_ = part.loss();
    else if (share_ > 0)  // a part in which no row counts has no loss
      value_ += std::isfinite(value_) ? share_ * (part.loss() - value_) : part.loss();  // infinite ones stay so
    return *mean_of;
  }

  /// The sum of the losses so far, or their mean.
  double value() const { return value_; }
  /// The share of the last part in that mean; 1 for sums.
  double share() const { return share_; }
  /// The factor by which gradients of the sum become those of the value.
  double scale() const { return divisor_ > 0 ? 1 / divisor_ : 1; }

 private:
  /// What a loss divided by: the rows of its part of the batch, where it does not say.
  template <class Loss>
  static std::optional<double> divisor_of(Loss const& part, index_t rows) {
    if constexpr (requires { part.divisor(); })
      return part.divisor();
    else
      return static_cast<double>(rows);
  }

  double value_ = 0;
  double divisor_ = 0;
  double share_ = 1;
};

}  // namespace tessera::detail
