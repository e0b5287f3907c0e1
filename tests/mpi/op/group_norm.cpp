#include "on_ranks.hpp"

#include "support/finite_differences.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/group_norm.hpp>

namespace {

using namespace on_ranks;

constexpr double epsilon = 1e-3;

template <int Groups, class Layout, class ParameterLayout, class Team>
void check_gradients(Team& team, shape<4> const& extents) {
  CAPTURE(to_string(extents));
  const auto x = worlds::values<double>(extents, 1);
  const auto weight = worlds::values<double>(shape<1>{extents[1]}, 2);
  const auto bias = worlds::values<double>(shape<1>{extents[1]}, 3);
  const auto weights = worlds::values<double>(extents, 4);
  const auto forward = [&](auto const& x_, auto const& w, auto const& b) {
    return op::group_norm<Groups>(distribute<Layout>(team, x_), distribute<ParameterLayout>(team, w),
                                  distribute<ParameterLayout>(team, b), epsilon);
  };
  const auto loss = [&](auto const&... all) { return finite_differences::weighted_sum(forward(all...).y, weights); };
  const auto whole = distribute<Layout>(team, x);
  const auto w = distribute<ParameterLayout>(team, weight);
  detail::group_parameter_gradient<std::remove_const_t<decltype(whole)>> dw(team, weight.extents());
  auto db = decltype(dw)(team, weight.extents());
  const auto statistics = forward(x, weight, bias).statistics;
  const auto dx = op::group_norm_backward<Groups>(whole, distribute<Layout>(team, weights), statistics, w, dw, db);
  // Those of the parameters alone, without messages, are the same ones.
  auto dw_alone = decltype(dw)(team, weight.extents());
  auto db_alone = decltype(dw)(team, weight.extents());
  op::group_norm_backward_parameters<Groups>(whole, distribute<Layout>(team, weights), statistics, dw_alone, db_alone);
  CHECK((same_bits(dw_alone.local(), dw.local()) && same_bits(db_alone.local(), db.local())));
  finite_differences::check([&](auto const& moved) { return loss(moved, weight, bias); }, x, gather(dx));
  finite_differences::check([&](auto const& moved) { return loss(x, moved, bias); }, weight, gather(dw));
  finite_differences::check([&](auto const& moved) { return loss(x, weight, moved); }, bias, gather(db));
}

}  // namespace

TEST_CASE("gradients of group norm are those of differences") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    check_gradients<2, row<axis>, replicated>(team, {3, 4, 2, 1});
    // Fewer rows than ranks: some hold no pixel.
    check_gradients<2, shard<2, axis>, replicated>(team, {2, 4, 3, 2});
    check_gradients<1, shard<3, axis>, replicated>(team, {1, 3, 2, 5});
    check_gradients<N, shard<1, axis>, row<axis>>(team, {2, 2 * N, 2, 1});
    check_gradients<2 * N, shard<1, axis>, row<axis>>(team, {1, 2 * N, 2, 2});
  });
}

TEST_CASE("group norm without parameters, of no samples, and of a large mean") {
  run([]<int N>(auto& team) {
    using cut = shard<2, all<N>>;
    const auto x = worlds::values<double>(shape<4>{2, 4, 3, 2}, 1);
    const auto weights = worlds::values<double>(x.extents(), 2);
    const auto whole = distribute<cut>(team, x);
    const auto statistics = op::group_norm<2>(whole, epsilon).statistics;
    finite_differences::check(
        [&](auto const& moved) {
          return finite_differences::weighted_sum(op::group_norm<2>(distribute<cut>(team, moved), epsilon).y, weights);
        },
        x, gather(op::group_norm_backward<2>(whole, distribute<cut>(team, weights), statistics)));

    const auto none = distribute<cut>(team, tensor<float, 4>({0, 4, 3, 2}));
    const auto of_none = op::group_norm<2>(none);
    CHECK(op::group_norm_backward<2>(none, of_none.y, of_none.statistics).extents() == none.extents());

    auto far = worlds::values<float>(shape<4>{2, 4, 9, 8}, 3);
    for (float& v : far.view()) v = 1e4f + 1e-2f * v;
    tensor<double, 4> as_double(far.extents());
    std::copy(far.view().begin(), far.view().end(), as_double.data());
    const auto wanted = gather(op::group_norm<2>(distribute<replicated>(team, as_double)).y);
    CHECK(worlds::difference(gather(op::group_norm<2>(distribute<cut>(team, far)).y), wanted) < 1e-5);
  });
}

TEST_CASE("only a cut of height or width costs messages: one forward and one backward") {
  run([]<int N>(auto&) {
    const recording<mpi_comm> log{mpi_comm{}};
    tessera::team<all_ranks<N>, recording<mpi_comm>> team{log};
    auto& calls = team.group(all_ranks<N>::all);
    const auto whole = worlds::values<float>(shape<4>{3, 2 * N, 4, 4}, 1);
    const auto count = [&](auto layout) {
      const auto x = distribute<decltype(layout)>(team, whole);
      calls.clear();
      const auto [y, statistics] = op::group_norm<N>(x);
      op::group_norm_backward<N>(x, y, statistics);
      return calls.calls();
    };
    CHECK(count(row<all<N>>{}).empty());
    CHECK(count(column<all<N>>{}).empty());
    if constexpr (N > 1) {
      const auto made = count(shard<3, all<N>>{});
      REQUIRE(made.size() == 2);
      CHECK(made[0].kind == collective::all_reduce);
      CHECK(made[0].elements == 2 * 3 * N);
      CHECK(made[1].kind == collective::all_reduce);
      CHECK(made[1].elements == 2 * 3 * N);
    }
  });
}

TEST_CASE("channels that the groups do not divide are an error") {
  run([]<int N>(auto& team) {
    const auto x = distribute<replicated>(team, worlds::values<float>(shape<4>{1, 5, 2, 2}, 1));
    CHECK_THROWS_WITH_AS(op::group_norm<2>(x), doctest::Contains("group_norm of 5 channels in 2 groups"), error);
  });
}
