#include "support/golden_worlds.hpp"

#include <tessera/op/group_norm.hpp>

namespace {

const golden::built here("group_norm");

template <int Groups>
struct group_norm_case {
  template <class Cuts>
  static constexpr bool takes() {
    return Groups % Cuts::parts('c') == 0;
  }
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using namespace tessera;
    using layout = typename Cuts::template of<'n', 'c', 'h', 'w'>;
    using parameter_layout = typename Cuts::template of<'c'>;
    const auto x = golden::put<T, 4, layout>(team, t["x"]);
    const auto weight = golden::put<T, 1, parameter_layout>(team, t["weight"]);
    const auto bias = golden::put<T, 1, parameter_layout>(team, t["bias"]);
    const auto [y, statistics] = op::group_norm<Groups>(x, weight, bias, t.what().given.number("eps"));
    golden::expect(t, "out", y);
    const auto dy = golden::put<T, 4, layout>(team, t["grad_out"]);
    detail::group_parameter_gradient<std::remove_const_t<decltype(x)>> dweight(team, weight.extents());
    auto dbias = decltype(dweight)(team, weight.extents());
    golden::expect(t, "grad_x", op::group_norm_backward<Groups>(x, dy, statistics, weight, dweight, dbias));
    golden::expect(t, "grad_weight", dweight);
    golden::expect(t, "grad_bias", dbias);
  }
};

}  // namespace

TEST_CASE("group_norm equals its reference cases") {
  golden::run("group_norm", [](golden::teams& all, golden::test_case const& c) {
    switch (static_cast<int>(c.given.number("num_groups"))) {
      case 1: return golden::run_cuts<group_norm_case<1>, 'n', 'c', 'h', 'w'>(all, c);
      case 2: return golden::run_cuts<group_norm_case<2>, 'n', 'c', 'h', 'w'>(all, c);
      case 4: return golden::run_cuts<group_norm_case<4>, 'n', 'c', 'h', 'w'>(all, c);
      default: return false;
    }
  });
}
