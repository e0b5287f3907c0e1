#include "support/golden_worlds.hpp"

#include <tessera/op/batch_matmul.hpp>

namespace {

using namespace tessera;

/// The letters of an operand's dimensions.
template <char... Letters>
struct dims {
  static constexpr int rank = static_cast<int>(sizeof...(Letters));
  template <class Cuts>
  using layout = typename Cuts::template of<Letters...>;
};

/// An array without leading dimensions of extent 1 that the operand lacks: it is used for the whole batch.
golden::array with_rank(golden::array a, int rank) {
  while (static_cast<int>(a.extents.size()) > rank) a.extents.erase(a.extents.begin());
  return a;
}

template <class A, class B>
struct batch_matmul_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    const auto a = golden::put<T, A::rank, typename A::template layout<Cuts>>(team, with_rank(t["a"], A::rank));
    const auto b = golden::put<T, B::rank, typename B::template layout<Cuts>>(team, with_rank(t["b"], B::rank));
    const auto y = op::batch_matmul(a, b);
    golden::expect(t, "out", y);
    const auto dy = golden::put_gradient<std::remove_const_t<decltype(y)>>(team, t["grad_out"]);
    const auto expect = [&](char const* name, char const* of, auto const& gradient) {
      t.expect(name, t[of].extents, golden::values_of(gradient));
    };
    expect("grad_a", "a", op::batch_matmul_backward_a(dy, a, b));
    expect("grad_b", "b", op::batch_matmul_backward_b(dy, a, b));
  }
};

const golden::built here("batch_matmul");

}  // namespace

TEST_CASE("batch_matmul equals its reference cases") {
  golden::run("batch_matmul", [](golden::teams& all, golden::test_case const& c) {
    using shapes = std::pair<std::size_t, std::size_t>;
    const shapes ranks{c["a"].extents.size(), c["b"].extents.size()};
    if (ranks == shapes{3, 3} && c["a"].extents[0] == c["b"].extents[0])
      return golden::run_cuts<batch_matmul_case<dims<'b', 'm', 'k'>, dims<'b', 'k', 'n'>>, 'b', 'm', 'n', 'k'>(all, c);
    if (ranks == shapes{3, 3} && c["a"].extents[0] == 1)
      return golden::run_cuts<batch_matmul_case<dims<'m', 'k'>, dims<'b', 'k', 'n'>>, 'b', 'm', 'n', 'k'>(all, c);
    if (ranks == shapes{4, 4})
      return golden::run_cuts<batch_matmul_case<dims<'b', 'h', 'm', 'k'>, dims<'b', 'h', 'k', 'n'>>, 'b', 'h', 'm', 'n',
                              'k'>(all, c);
    return ranks == shapes{4, 2} &&
           golden::run_cuts<batch_matmul_case<dims<'b', 'h', 'm', 'k'>, dims<'k', 'n'>>, 'b', 'h', 'm', 'n', 'k'>(all,
                                                                                                                  c);
  });
}
