#include "support/golden_worlds.hpp"

#include <tessera/train/optimizer.hpp>

namespace {

using namespace tessera;

/// One step's part of an array whose first dimension is the step.
golden::array at_step(golden::array const& steps, std::size_t step) {
  golden::array one;
  one.extents.assign(steps.extents.begin() + 1, steps.extents.end());
  const auto size = steps.values.size() / static_cast<std::size_t>(steps.extents.at(0));
  const auto from = steps.values.begin() + static_cast<std::ptrdiff_t>(step * size);
  one.values.assign(from, from + static_cast<std::ptrdiff_t>(size));
  return one;
}

/// Dimensions have the letters a, b, ... of which the first two may be cut. Every parameter takes steps of its own.
struct momentum_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    for (auto const& [name, a] : t.what().arrays) {
      if (a.role != "param") continue;
      switch (a.extents.size()) {
        case 1: one<T, typename Cuts::template of<'a'>, 1>(team, t, name); break;
        case 2: one<T, typename Cuts::template of<'a', 'b'>, 2>(team, t, name); break;
        case 4: one<T, typename Cuts::template of<'a', 'b', 'c', 'd'>, 4>(team, t, name); break;
        default: FAIL("no run for parameters of " << a.extents.size() << " dimensions");
      }
    }
  }

 private:
  template <class T, class Layout, int Rank, class Team>
  static void one(Team& team, golden::trial& t, std::string const& name) {
    auto const& given = t.what().given;
    momentum optimizer{given.number("lr", 0), given.number("momentum", 0), given.number("dampening", 0),
                       given.number("weight_decay", 0), given.is("nesterov")};
    momentum::state<T, typename Team::backend::memory> state;
    auto value = golden::put<T, Rank, Layout>(team, t[name]);
    std::vector<double> after;
    const auto steps = static_cast<std::size_t>(given.number("steps"));
    for (std::size_t s = 0; s < steps; ++s) {
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
    if (!t.has(name + "_momentum_buffer")) return;
    value.local() = state.buffers.at(0).reshaped(value.local().extents());
    golden::expect(t, name + "_momentum_buffer", value);
  }
};

const golden::built here("sgd");

}  // namespace

TEST_CASE("momentum equals the reference cases of stochastic gradient descent") {
  golden::run("sgd", golden::run_cuts<momentum_case, 'a', 'b'>);
}
