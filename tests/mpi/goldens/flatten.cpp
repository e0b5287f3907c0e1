#include "support/golden_worlds.hpp"

#include <tessera/op/flatten.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

/// Merges dimensions `Start` to `End` of a tensor whose dimensions have the letters `Dims`.
template <int Start, int End, char... Dims>
struct flatten_case {
  static constexpr int rank = static_cast<int>(sizeof...(Dims));

  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    const auto x = golden::put<T, rank, typename Cuts::template of<Dims...>>(team, t["x"]);
    index_t merged = 1;
    for (int d = Start + 1; d <= End; ++d) merged *= x.extent(d);
    constexpr char dims[] = {Dims...};
    if (merged != 1 && x.extent(Start) % Cuts::parts(dims[Start]) != 0) {
      CHECK_THROWS_AS((op::flatten<Start, End>(x)), error);
      return t.reject();
    }
    const auto y = op::flatten<Start, End>(x);
    golden::expect(t, "out", y);
    using x_type = std::remove_const_t<decltype(x)>;
    const auto dy = golden::put_gradient<std::remove_const_t<decltype(y)>>(team, t["grad_out"]);
    golden::expect(t, "grad_x", op::flatten_backward<x_type>(dy, x.extents()));
  }
};

bool run_matrix(golden::teams& all, golden::test_case const& c) {
  return golden::run_cuts<flatten_case<0, 1, 'a', 'b'>, 'a'>(all, c);
}

bool run_rank_3(golden::teams& all, golden::test_case const& c, int start, int end) {
  switch (10 * start + end) {
    case 1: return golden::run_cuts<flatten_case<0, 1, 'a', 'b', 'c'>, 'a', 'c'>(all, c);
    case 2: return golden::run_cuts<flatten_case<0, 2, 'a', 'b', 'c'>, 'a'>(all, c);
    case 12: return golden::run_cuts<flatten_case<1, 2, 'a', 'b', 'c'>, 'a', 'b'>(all, c);
    default: return false;
  }
}

bool run_rank_4(golden::teams& all, golden::test_case const& c, int start, int end) {
  switch (10 * start + end) {
    case 1: return golden::run_cuts<flatten_case<0, 1, 'a', 'b', 'c', 'd'>, 'a', 'c', 'd'>(all, c);
    case 2: return golden::run_cuts<flatten_case<0, 2, 'a', 'b', 'c', 'd'>, 'a', 'd'>(all, c);
    case 3: return golden::run_cuts<flatten_case<0, 3, 'a', 'b', 'c', 'd'>, 'a'>(all, c);
    case 12: return golden::run_cuts<flatten_case<1, 2, 'a', 'b', 'c', 'd'>, 'a', 'b', 'd'>(all, c);
    case 13: return golden::run_cuts<flatten_case<1, 3, 'a', 'b', 'c', 'd'>, 'a', 'b'>(all, c);
    case 23: return golden::run_cuts<flatten_case<2, 3, 'a', 'b', 'c', 'd'>, 'a', 'b', 'c'>(all, c);
    default: return false;
  }
}

const golden::built here("flatten");

}  // namespace

TEST_CASE("flatten equals its reference cases") {
  golden::run("flatten", [](golden::teams& all, golden::test_case const& c) {
    const int rank = static_cast<int>(c["x"].extents.size());
    const auto wrapped = [&](char const* name) {
      const int dim = static_cast<int>(c.given.number(name));
      return dim < 0 ? rank + dim : dim;
    };
    const int start = wrapped("start_dim");
    const int end = wrapped("end_dim");
    if (rank == 2 && start == 0 && end == 1) return run_matrix(all, c);
    if (rank == 3) return run_rank_3(all, c, start, end);
    return rank == 4 && run_rank_4(all, c, start, end);
  });
}
