#include "broadcast.hpp"

#include <tessera/op/elementwise.hpp>

namespace {

using namespace tessera;

template <char... Dims>
struct relu_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    constexpr int rank = static_cast<int>(sizeof...(Dims));
    using layout = typename Cuts::template of<Dims...>;
    const auto y = op::relu(golden::put<T, rank, layout>(team, t["x"]));
    golden::expect(t, "out", y);
    golden::expect(t, "grad_x", op::relu_backward(y, golden::put<T, rank, layout>(team, t["grad_out"])));
  }
};

template <char... Dims>
struct add_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    constexpr int rank = static_cast<int>(sizeof...(Dims));
    using layout = typename Cuts::template of<Dims...>;
    golden::expect(t, "out", golden::put<T, rank, layout>(team, t["a"]) + golden::put<T, rank, layout>(team, t["b"]));
    const auto dy = golden::put<T, rank, layout>(team, t["grad_out"]);
    golden::expect(t, "grad_a", dy);
    golden::expect(t, "grad_b", dy);
  }
};

template <char... Dims>
struct mul_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    constexpr int rank = static_cast<int>(sizeof...(Dims));
    using layout = typename Cuts::template of<Dims...>;
    const auto a = golden::put<T, rank, layout>(team, t["a"]);
    const auto b = golden::put<T, rank, layout>(team, t["b"]);
    golden::expect(t, "out", a * b);
    const auto dy = golden::put<T, rank, layout>(team, t["grad_out"]);
    golden::expect(t, "grad_a", dy * b);
    golden::expect(t, "grad_b", dy * a);
  }
};

/// Runs a case by the rank of one of its arrays; every dimension may be cut.
template <template <char...> class Case>
bool run_by_rank(golden::teams& all, golden::test_case const& c, char const* by) {
  switch (c[by].extents.size()) {
    case 0: return golden::run_cuts<Case<>>(all, c);
    case 1: return golden::run_cuts<Case<'a'>, 'a'>(all, c);
    case 2: return golden::run_cuts<Case<'a', 'b'>, 'a', 'b'>(all, c);
    case 3: return golden::run_cuts<Case<'a', 'b', 'c'>, 'a', 'b', 'c'>(all, c);
    case 4: return golden::run_cuts<Case<'a', 'b', 'c', 'd'>, 'a', 'b', 'c', 'd'>(all, c);
    default: return false;
  }
}

bool broadcasts(golden::test_case const& c) { return c["a"].extents != c["b"].extents; }

const golden::built here[] = {golden::built("relu"), golden::built("add"), golden::built("sub"), golden::built("mul")};

}  // namespace

TEST_CASE("relu equals its reference cases") {
  golden::run("relu", [](auto& all, auto const& c) { return run_by_rank<relu_case>(all, c, "x"); });
}

TEST_CASE("add equals its reference cases") {
  golden::run("add", [](auto& all, auto const& c) {
    return broadcasts(c) ? golden::run_broadcast(all, c) : run_by_rank<add_case>(all, c, "a");
  });
}

TEST_CASE("sub equals its reference cases") { golden::run("sub", golden::run_broadcast); }

TEST_CASE("mul equals its reference cases") {
  golden::run("mul", [](auto& all, auto const& c) {
    return broadcasts(c) ? golden::run_broadcast(all, c) : run_by_rank<mul_case>(all, c, "a");
  });
}
