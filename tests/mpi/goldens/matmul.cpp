#include "support/golden_worlds.hpp"

#include <tessera/op/matmul.hpp>

namespace {

using namespace tessera;

template <bool TransposeA, bool TransposeB>
struct matmul_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using a_layout = typename Cuts::template of<(TransposeA ? 'k' : 'm'), (TransposeA ? 'm' : 'k')>;
    using b_layout = typename Cuts::template of<(TransposeB ? 'n' : 'k'), (TransposeB ? 'k' : 'n')>;
    const auto a = golden::put<T, 2, a_layout>(team, t["a"]);
    const auto b = golden::put<T, 2, b_layout>(team, t["b"]);
    const auto y = op::matmul<TransposeA, TransposeB>(a, b);
    golden::expect(t, "out", y);
    const auto dy = golden::put_gradient<decltype(y)>(team, t["grad_out"]);
    if constexpr (TransposeA)
      golden::expect(t, "grad_a", op::matmul<TransposeB, true>(b, dy));
    else
      golden::expect(t, "grad_a", op::matmul<false, !TransposeB>(dy, b));
    if constexpr (TransposeB)
      golden::expect(t, "grad_b", op::matmul<true, TransposeA>(dy, a));
    else
      golden::expect(t, "grad_b", op::matmul<!TransposeA, false>(a, dy));
  }
};

const golden::built here("matmul");

}  // namespace

TEST_CASE("matmul equals its reference cases") {
  golden::run("matmul", [](golden::teams& all, golden::test_case const& c) {
    if (c.given.is("transpose_a"))
      return c.given.is("transpose_b") ? golden::run_cuts<matmul_case<true, true>, 'm', 'n', 'k'>(all, c)
                                       : golden::run_cuts<matmul_case<true, false>, 'm', 'n', 'k'>(all, c);
    return c.given.is("transpose_b") ? golden::run_cuts<matmul_case<false, true>, 'm', 'n', 'k'>(all, c)
                                     : golden::run_cuts<matmul_case<false, false>, 'm', 'n', 'k'>(all, c);
  });
}
