#pragma once

#include <tessera/core/shape.hpp>
#include <tessera/train/option_check.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

/// Learning rates that change while training: function objects from the number of the step, from 0, to its rate. A
/// trainer takes any such function as `options::schedule`. Those here throw where a rate or factor is negative or not
/// finite, or a number of steps is negative.
namespace tessera {

namespace detail {
inline void require_steps(char const* option, index_t steps) {
  if (steps < 0) throw error(std::string(option) + " of " + std::to_string(steps), "0 or more", "mend the option");
}
}  // namespace detail

/// The same rate in all steps.
struct constant_rate {
  double rate = 0;
  double operator()(index_t) const {
    detail::require_not_negative("constant_rate::rate", rate);
    return rate;
  }
};

/// rate * factor^k in the steps from k * every on. Throws where `every` is not positive.
struct step_rate {
  double rate = 0;
  index_t every = 1;
  double factor = 0.1;
  double operator()(index_t step) const {
    if (every <= 0)
      throw error("a learning rate that changes every " + std::to_string(every) + " steps", "a positive number",
                  "mend step_rate::every");
    detail::require_not_negative("step_rate::rate", rate);
    detail::require_not_negative("step_rate::factor", factor);
    return rate * std::pow(factor, static_cast<double>(step / every));
  }
};

/// Half a wave of the cosine from `rate` in step 0 to `last` in step `steps`, and `last` from there on (I. Loshchilov
/// and F. Hutter, ICLR 2017, without restarts).
struct cosine_rate {
  double rate = 0;
  index_t steps = 0;
  double last = 0;
  double operator()(index_t step) const {
    detail::require_not_negative("cosine_rate::rate", rate);
    detail::require_not_negative("cosine_rate::last", last);
    detail::require_steps("cosine_rate::steps", steps);
    if (step >= steps) return last;
    const double done = static_cast<double>(step) / static_cast<double>(steps);
    return last + (rate - last) * (1 + std::cos(std::numbers::pi * done)) / 2;
  }
};

/// A straight line through `steps` steps up to where another schedule begins (P. Goyal et al., "Accurate, large
/// minibatch SGD", 2017): step s has (s + 1) / (steps + 1) of the rate with which `then` starts, in step `steps`.
///
///     ts::warm_up{500, ts::cosine_rate{.rate = 0.1, .steps = 20000}}
template <class Then>
struct warm_up {
  index_t steps = 0;
  Then then{};
  double operator()(index_t step) const {
    detail::require_steps("warm_up::steps", steps);
    if (step >= steps) return then(step - steps);
    return then(index_t{0}) * static_cast<double>(step + 1) / static_cast<double>(steps + 1);
  }
};
template <class Then>
warm_up(index_t, Then) -> warm_up<Then>;

}  // namespace tessera
