#include "support/golden_worlds.hpp"

#include <tessera/op/rms_norm.hpp>

namespace {

const golden::built here("rms_norm");

/// Over the last dimension, `f`, after dimensions with the letters `First`.
template <char... First>
struct rms_norm_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using namespace tessera;
    constexpr int rank = 1 + static_cast<int>(sizeof...(First));
    using layout = typename Cuts::template of<First..., 'f'>;
    const double epsilon = t.what().given.number("eps");
    const auto x = golden::put<T, rank, layout>(team, t["x"]);
    const auto dy = golden::put<T, rank, layout>(team, t["grad_out"]);
    if (!t.has("weight")) {
      const auto [y, statistics] = op::rms_norm(x, epsilon);
      golden::expect(t, "out", y);
      golden::expect(t, "grad_x", op::rms_norm_backward(x, dy, statistics));
      return;
    }
    const auto weight = golden::put<T, 1, typename Cuts::template of<'f'>>(team, t["weight"]);
    const auto [y, statistics] = op::rms_norm(x, weight, epsilon);
    golden::expect(t, "out", y);
    detail::row_parameter_gradient<std::remove_const_t<decltype(x)>, std::remove_const_t<decltype(weight)>> dweight(
        team, weight.extents());
    golden::expect(t, "grad_x", op::rms_norm_backward(x, dy, statistics, weight, dweight));
    golden::expect(t, "grad_weight", dweight);
  }
};

}  // namespace

TEST_CASE("rms_norm equals its reference cases") {
  golden::run("rms_norm", [](golden::teams& all, golden::test_case const& c) {
    switch (c["x"].extents.size()) {
      case 2: return golden::run_cuts<rms_norm_case<'n'>, 'n', 'f'>(all, c);
      case 3: return golden::run_cuts<rms_norm_case<'n', 's'>, 'n', 's', 'f'>(all, c);
      default: return false;
    }
  });
}
