#include "support/golden_worlds.hpp"

#include <tessera/op/layer_norm.hpp>

namespace {

const golden::built here("layer_norm");

/// Layer norm over the dimensions with the letters `Last`, which follow those of `First`.
template <class First, class Last>
struct layer_norm_case;
template <char... C>
struct letters {};

template <char... First, char... Last>
struct layer_norm_case<letters<First...>, letters<Last...>> {
  static constexpr int dims = static_cast<int>(sizeof...(Last));
  static constexpr int rank = static_cast<int>(sizeof...(First)) + dims;

  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using namespace tessera;
    using layout = typename Cuts::template of<First..., Last...>;
    using parameter_layout = typename Cuts::template of<Last...>;
    const double epsilon = t.what().given.number("eps");
    const auto x = golden::put<T, rank, layout>(team, t["x"]);
    const auto dy = golden::put<T, rank, layout>(team, t["grad_out"]);
    if (!t.has("weight")) {
      const auto [y, statistics] = op::layer_norm<dims>(x, epsilon);
      golden::expect(t, "out", y);
      golden::expect(t, "grad_x", op::layer_norm_backward<dims>(x, dy, statistics));
      return;
    }
    const auto weight = golden::put<T, dims, parameter_layout>(team, t["weight"]);
    const auto bias = golden::put<T, dims, parameter_layout>(team, t["bias"]);
    const auto [y, statistics] = op::layer_norm(x, weight, bias, epsilon);
    golden::expect(t, "out", y);
    detail::row_parameter_gradient<std::remove_const_t<decltype(x)>, std::remove_const_t<decltype(weight)>> dweight(
        team, weight.extents());
    auto dbias = decltype(dweight)(team, weight.extents());
    golden::expect(t, "grad_x", op::layer_norm_backward(x, dy, statistics, weight, dweight, dbias));
    golden::expect(t, "grad_weight", dweight);
    golden::expect(t, "grad_bias", dbias);
  }
};

}  // namespace

TEST_CASE("layer_norm equals its reference cases") {
  golden::run("layer_norm", [](golden::teams& all, golden::test_case const& c) {
    const auto rank = c["x"].extents.size();
    switch (10 * rank + c.given.list("normalized_shape").size()) {
      case 21: return golden::run_cuts<layer_norm_case<letters<'n'>, letters<'f'>>, 'n', 'f'>(all, c);
      case 31: return golden::run_cuts<layer_norm_case<letters<'n', 's'>, letters<'f'>>, 'n', 's', 'f'>(all, c);
      case 42:
        return golden::run_cuts<layer_norm_case<letters<'n', 'c'>, letters<'h', 'w'>>, 'n', 'c', 'h', 'w'>(all, c);
      default: return false;
    }
  });
}
