#pragma once

#include <tessera/comm/concept.hpp>
#include <tessera/train/network.hpp>
#include <tessera/train/option_check.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tessera {

/// Loss scaling by the same factor in all steps (MindSpore's FixedLossScaleManager).
struct fixed_scale {
  double factor = 1;
};

/// Loss scaling by a factor that is found while training (MindSpore's DynamicLossScaleManager; P. Micikevicius et al.,
/// "Mixed precision training", ICLR 2018): times `backoff` after a step whose gradients were not finite, times `growth`
/// after `every` steps in a row whose gradients were. It stays within 2^-64 and 2^64. Powers of two lose no bit.
struct dynamic_scale {
  double initial = 65536;
  double growth = 2;
  double backoff = 0.5;
  index_t every = 2000;
};

/// None, or one of these.
using loss_scaling = std::variant<std::monostate, fixed_scale, dynamic_scale>;

/// Where loss scaling is: what a checkpoint keeps of it.
struct loss_scale_state {
  double factor = 1;
  index_t finite_steps = 0;    ///< in a row, since the factor changed last
  index_t skipped = 0;         ///< of all steps
  index_t skipped_in_row = 0;  ///< just now

  friend bool operator==(loss_scale_state const&, loss_scale_state const&) = default;
};

/// The factor of each step, from whether the gradients of the steps before were finite. The same on all ranks that are
/// told the same.
class loss_scaler {
 public:
  /// Steps in a row that may be skipped: where so many factors do not help, the fault is another.
  static constexpr index_t patience = 64;

  /// Throws where the options make no sense.
  explicit loss_scaler(loss_scaling const& choice = {}) : on_(choice.index() != 0) {
    if (auto const* fixed = std::get_if<fixed_scale>(&choice)) {
      require("fixed_scale::factor", fixed->factor, least, most);
      state_.factor = fixed->factor;
    } else if (auto const* found = std::get_if<dynamic_scale>(&choice)) {
      require("dynamic_scale::initial", found->initial, least, most);
      require("dynamic_scale::growth", found->growth, 1, most);
      require("dynamic_scale::backoff", found->backoff, least, 1);
      if (found->every < 1)
        throw error("dynamic_scale::every of " + std::to_string(found->every), "1 or more", "mend the option");
      dynamic_ = *found;
      state_.factor = found->initial;
    }
  }

  /// Whether there is any scaling, and gradients have to be looked at.
  bool on() const { return on_; }
  /// What the loss of the next step is multiplied by, and its gradients divided by.
  double factor() const { return state_.factor; }
  /// Takes in whether the gradients of a step were finite. Throws where they were not for `patience` steps in a row.
  void update(bool finite) {
    if (finite) {
      state_.skipped_in_row = 0;
      ++state_.finite_steps;
      if (dynamic_ && state_.finite_steps >= dynamic_->every) change(dynamic_->growth);
    } else {
      ++state_.skipped;
      change(dynamic_ ? dynamic_->backoff : 1);
      if (++state_.skipped_in_row >= patience)
        throw error("gradients that are infinite or NaN in " + std::to_string(patience) + " steps in a row",
                    "finite gradients at some scale",
                    "look for faults in the data, lower the learning rate, or choose a smaller fixed_scale");
    }
  }

  loss_scale_state const& state() const { return state_; }
  /// Goes on from there; a factor that is fixed stays.
  void state(loss_scale_state const& saved) {
    const double fixed = state_.factor;
    state_ = saved;
    if (!dynamic_) state_.factor = fixed;
  }

 private:
  static constexpr double least = 0x1p-64;
  static constexpr double most = 0x1p64;

  static void require(char const* option, double value, double from, double to) {
    if (!(value >= from && value <= to))
      throw error(std::string(option) + " of " + std::to_string(value),
                  "a number from " + std::to_string(from) + " to " + std::to_string(to), "mend the option");
  }
  void change(double by) {
    state_.finite_steps = 0;
    state_.factor = std::clamp(state_.factor * by, least, most);
  }

  bool on_;
  std::optional<dynamic_scale> dynamic_{};
  loss_scale_state state_{};
};

/// Whether all gradients are finite on all ranks. Their squares have to be, too, in double.
///
/// One all_reduce of one number over the mesh. Each rank looks at all of its blocks: rounding may take those that are
/// held twice to infinity on one rank and not on another.
template <context Context, class T>
bool gradients_finite(Context& where, std::vector<parameter_view<T>> const& parameters) {
  using mesh = typename Context::mesh;
  const auto finite = [&](parameter_view<T> const& p) {
    return !p.trainable || std::isfinite(where.kernels().square_sum(block<T const, 1>(p.gradient)));
  };
  std::int32_t faults = std::all_of(parameters.begin(), parameters.end(), finite) ? 0 : 1;
  if (mesh::devices > 1) detail::host_group(where, mesh::all).all_reduce(&faults, 1, reduction::maximum);
  return faults == 0;
}

}  // namespace tessera
