#include "support/golden_worlds.hpp"

#include <tessera/op/matmul.hpp>

namespace {

using namespace tessera;

/// `Rows` are the letters of all dimensions of the input but the last.
template <char... Rows>
struct linear_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    constexpr int rank = static_cast<int>(sizeof...(Rows)) + 1;
    const auto x = golden::put<T, rank, typename Cuts::template of<Rows..., 'i'>>(team, t["x"]);
    const auto w = golden::put<T, 2, typename Cuts::template of<'o', 'i'>>(team, t["weight"]);
    auto y = op::linear_product(x, w);
    if (t.has("bias")) op::add_bias_once(y, golden::put<T, 1, typename Cuts::template of<'o'>>(team, t["bias"]));
    golden::expect(t, "out", y);

    const auto dy = golden::put_gradient<decltype(y)>(team, t["grad_out"]);
    using gradient_type = std::remove_const_t<decltype(dy)>;
    golden::expect(t, "grad_x", op::linear_product_backward_input(dy, w));
    result_of<detail::linear_weight_gradient_op<rank>, 2, gradient_type, std::remove_const_t<decltype(x)>> dw(
        team, w.extents());
    op::linear_product_backward_weight(dy, x, dw);
    golden::expect(t, "grad_weight", dw);
    if (t.has("bias")) {
      result_of<detail::bias_gradient_op<rank>, 1, gradient_type> db(team, {{w.extent(0)}});
      op::bias_backward(dy, db);
      golden::expect(t, "grad_bias", db);
    }
  }
};

const golden::built here("linear");

}  // namespace

TEST_CASE("linear equals its reference cases") {
  golden::run("linear", [](golden::teams& all, golden::test_case const& c) {
    switch (c["x"].extents.size()) {
      case 1: return golden::run_cuts<linear_case<>, 'o', 'i'>(all, c);
      case 2: return golden::run_cuts<linear_case<'n'>, 'n', 'o', 'i'>(all, c);
      case 3: return golden::run_cuts<linear_case<'n', 's'>, 'n', 's', 'o', 'i'>(all, c);
      default: return false;
    }
  });
}
