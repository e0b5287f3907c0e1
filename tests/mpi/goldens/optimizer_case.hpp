#pragma once

#include "support/golden_worlds.hpp"

#include <tessera/train/network.hpp>

/// Reference cases of optimizers: steps with given gradients.
namespace optimizer_case {

using namespace tessera;

/// One step's part of an array whose first dimension is the step.
inline golden::array at_step(golden::array const& steps, std::size_t step) {
  golden::array one;
  one.extents.assign(steps.extents.begin() + 1, steps.extents.end());
  const auto size = steps.values.size() / static_cast<std::size_t>(steps.extents.at(0));
  const auto from = steps.values.begin() + static_cast<std::ptrdiff_t>(step * size);
  one.values.assign(from, from + static_cast<std::ptrdiff_t>(size));
  return one;
}

/// Calls `f.operator()<Layout, Rank>(name)` for the arrays of a role. Dimensions have the letters a, b, ...
template <class Cuts, class F>
void for_each(golden::trial& t, std::string const& role, F f) {
  for (auto const& [name, a] : t.what().arrays) {
    if (a.role != role) continue;
    switch (a.extents.size()) {
      case 1: f.template operator()<typename Cuts::template of<'a'>, 1>(name); break;
      case 2: f.template operator()<typename Cuts::template of<'a', 'b'>, 2>(name); break;
      case 4: f.template operator()<typename Cuts::template of<'a', 'b', 'c', 'd'>, 4>(name); break;
      default: FAIL("no run for parameters of " << a.extents.size() << " dimensions");
    }
  }
}

/// `Of::optimizer(attributes)` makes the optimizer; `Of::expect_state(trial, name, state, expect)` calls
/// `expect(array name, memory)` for what it remembers. Every parameter takes steps of its own.
template <class Of>
struct steps {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    for_each<Cuts>(t, "param",
                   [&]<class Layout, int Rank>(std::string const& name) { one<T, Layout, Rank>(team, t, name); });
  }

 private:
  template <class T, class Layout, int Rank, class Team>
  static void one(Team& team, golden::trial& t, std::string const& name) {
    auto const& given = t.what().given;
    auto optimizer = Of::optimizer(given);
    typename decltype(optimizer)::template state<T, typename Team::backend::memory> state;
    auto value = golden::put<T, Rank, Layout>(team, t[name]);
    std::vector<double> after;
    const auto count = static_cast<std::size_t>(given.number("steps"));
    for (std::size_t s = 0; s < count; ++s) {
      if (given.has("lr_per_step")) optimizer.learning_rate = given.list("lr_per_step").at(s);
      auto gradient = golden::put<T, Rank, Layout>(team, at_step(t["grads_" + name], s));
      const shape<1> size{{value.local().size()}};
      const parameter_view<T> view{name, {value.local().data(), size}, {gradient.local().data(), size}, {}};
      const std::vector<parameter_view<T>> parameters{view};
      optimizer.step(team.kernels(), parameters, state);
      const auto now = golden::values_of(value);
      after.insert(after.end(), now.begin(), now.end());
    }
    t.expect(name + "_after", t[name + "_after"].extents, after);
    Of::expect_state(t, name, state, [&](std::string const& array, auto const& memory) {
      golden::assign(value, memory.read().data);
      golden::expect(t, array, value);
    });
  }
};

}  // namespace optimizer_case
