#include "on_ranks.hpp"

#include <tessera/op/broadcast.hpp>
#include <tessera/redistribute/to.hpp>

#include <doctest/doctest.h>

namespace {

using namespace on_ranks;

template <int Rank>
tensor<double, Rank> counted(shape<Rank> extents, double start) {
  tensor<double, Rank> t(extents);
  for (double& v : t.view()) v = start++;
  return t;
}

/// Images with channels last beside a row-major matrix of channels and heights: the two lie differently in memory.
template <class Cut, class Team>
void check_images(Team& team) {
  using cuts = layout<shard<1, Cut>>;
  const auto x = counted(shape<4>{2, 5, 3, 2}, 1);
  const auto b = counted(shape<2>{5, 3}, 100);
  const auto y = distribute<cuts>(team, x) + along<1, 2>(distribute<row<Cut>>(team, b));
  const auto whole = gather(y);
  const auto sums = gather(op::sum_along<1, 2>(y));
  for (index_t c = 0; c < 5; ++c)
    for (index_t h = 0; h < 3; ++h) {
      double sum = 0;
      for (index_t n = 0; n < 2; ++n)
        for (index_t w = 0; w < 2; ++w) {
          CHECK(whole(n, c, h, w) == x(n, c, h, w) + b(c, h));
          sum += x(n, c, h, w) + b(c, h);
        }
      CHECK(sums(c, h) == sum);
    }
}

}  // namespace

TEST_CASE("a matrix is repeated over images though it lies differently") {
  run([]<int N>(auto& team) { check_images<all<N>>(team); });
}

TEST_CASE("a sum over a cut dimension is partial, and partial sums may be repeated") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    const auto x = counted(shape<2>{7, 3}, 1);
    const auto rows = distribute<row<axis>>(team, x);
    const auto sums = op::sum_along<1>(rows);
    static_assert(decltype(sums)::placements.partial_axes() != 0);
    // 2 * sums in each of three rows: linear, so a partial factor is allowed beside a whole one.
    const auto spread = gather(along<0>(distribute<replicated>(team, tensor<double, 1>({3}, 2.0))) * along<1>(sums));
    const auto added = gather(along<0>(sums) + along<0>(sums));
    for (index_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (index_t r = 0; r < 7; ++r) sum += x(r, c);
      for (index_t r = 0; r < 3; ++r) CHECK(spread(r, c) == 2 * sum);
      CHECK(added(c) == 2 * sum);
    }
  });
}

TEST_CASE("operands that disagree about an extent are an error on every rank") {
  run([]<int N>(auto& team) {
    const auto x = distribute<replicated>(team, counted(shape<2>{4, 3}, 1));
    const auto b = distribute<replicated>(team, counted(shape<1>{4}, 1));
    CHECK_THROWS_WITH_AS(x + along<1>(b), doctest::Contains("equal extents in each dimension that both have"), error);
  });
}
