#include "on_ranks.hpp"

#include "support/finite_differences.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/layer_norm.hpp>
#include <tessera/op/rms_norm.hpp>

namespace {

using namespace on_ranks;

constexpr double epsilon = 1e-3;

struct layer_norm_functions {
  template <class... A>
  static auto forward(A const&... a) {
    return op::layer_norm(a..., epsilon);
  }
  static constexpr int parameters = 2;
};
struct rms_norm_functions {
  template <class X, class W, class B>
  static auto forward(X const& x, W const& w, B const&) {
    return op::rms_norm(x, w, epsilon);
  }
  static constexpr int parameters = 1;
};

/// Gradients of x [..., last dimensions] and of the parameters along these, all cut by `Cut` where it names theirs.
template <class Functions, class Layout, class ParameterLayout, class Team, int Rank, int Dims>
void check_gradients(Team& team, shape<Rank> const& extents, shape<Dims> const& last) {
  CAPTURE(to_string(extents));
  const auto x = worlds::values<double>(extents, 1);
  const auto weight = worlds::values<double>(last, 2);
  const auto bias = worlds::values<double>(last, 3);
  const auto weights = worlds::values<double>(extents, 4);
  const auto forward = [&](auto const& x_, auto const& w, auto const& b) {
    return Functions::forward(distribute<Layout>(team, x_), distribute<ParameterLayout>(team, w),
                              distribute<ParameterLayout>(team, b));
  };
  const auto loss = [&](auto const&... all) { return finite_differences::weighted_sum(forward(all...).y, weights); };
  const auto whole = distribute<Layout>(team, x);
  const auto dy = distribute<Layout>(team, weights);
  const auto w = distribute<ParameterLayout>(team, weight);
  const auto statistics = forward(x, weight, bias).statistics;
  detail::row_parameter_gradient<std::remove_const_t<decltype(whole)>, std::remove_const_t<decltype(w)>> dw(team, last);
  auto db = decltype(dw)(team, last);
  const auto dx = [&] {
    if constexpr (Functions::parameters == 2)
      return op::layer_norm_backward(whole, dy, statistics, w, dw, db);
    else
      return op::rms_norm_backward(whole, dy, statistics, w, dw);
  }();
  // Those of the parameters alone, without messages, are the same ones.
  auto dw_alone = decltype(dw)(team, last);
  auto db_alone = decltype(dw)(team, last);
  if constexpr (Functions::parameters == 2)
    op::layer_norm_backward_parameters(whole, dy, statistics, dw_alone, db_alone);
  else
    op::rms_norm_backward_parameters(whole, dy, statistics, dw_alone);
  CHECK(same_bits(dw_alone.local(), dw.local()));
  if constexpr (Functions::parameters == 2) CHECK(same_bits(db_alone.local(), db.local()));
  finite_differences::check([&](auto const& moved) { return loss(moved, weight, bias); }, x, gather(dx));
  finite_differences::check([&](auto const& moved) { return loss(x, moved, bias); }, weight, gather(dw));
  if constexpr (Functions::parameters == 2)
    finite_differences::check([&](auto const& moved) { return loss(x, weight, moved); }, bias, gather(db));
}

template <class Functions, class Axis, class Team>
void check_all_gradients(Team& team) {
  check_gradients<Functions, row<Axis>, replicated>(team, shape<2>{3, 5}, shape<1>{5});
  check_gradients<Functions, column<Axis>, row<Axis>>(team, shape<2>{2, 5}, shape<1>{5});
  // Fewer features than ranks: some ranks hold nothing of any row.
  check_gradients<Functions, column<Axis>, row<Axis>>(team, shape<2>{2, 3}, shape<1>{3});
  check_gradients<Functions, shard<1, Axis>, replicated>(team, shape<3>{2, 3, 2}, shape<1>{2});
  check_gradients<Functions, shard<1, Axis>, row<Axis>>(team, shape<3>{2, 3, 2}, shape<2>{3, 2});
  // Images lie in memory with their channels last.
  check_gradients<Functions, shard<1, Axis>, replicated>(team, shape<4>{1, 3, 2, 2}, shape<1>{2});
  check_gradients<Functions, shard<2, Axis>, row<Axis>>(team, shape<4>{2, 2, 3, 2}, shape<2>{3, 2});
  check_gradients<Functions, shard<1, Axis>, row<Axis>>(team, shape<4>{2, 3, 2, 2}, shape<3>{3, 2, 2});
  check_gradients<Functions, shard<3, Axis>, shard<2, Axis>>(team, shape<4>{2, 3, 2, 2}, shape<3>{3, 2, 2});
}

}  // namespace

TEST_CASE("gradients of layer norm are those of differences") {
  run([]<int N>(auto& team) { check_all_gradients<layer_norm_functions, all<N>>(team); });
}

TEST_CASE("gradients of a root-mean-square norm are those of differences") {
  run([]<int N>(auto& team) { check_all_gradients<rms_norm_functions, all<N>>(team); });
}

TEST_CASE("gradients without parameters, and no elements at all") {
  run([]<int N>(auto& team) {
    const auto x = worlds::values<double>(shape<3>{2, 3, 4}, 1);
    const auto weights = worlds::values<double>(shape<3>{2, 3, 4}, 2);
    using cut = shard<2, all<N>>;
    const auto dy = distribute<cut>(team, weights);
    const auto whole = distribute<cut>(team, x);
    const auto of_two = op::layer_norm_backward<2>(whole, dy, op::layer_norm<2>(whole, epsilon).statistics);
    finite_differences::check(
        [&](auto const& moved) {
          return finite_differences::weighted_sum(op::layer_norm<2>(distribute<cut>(team, moved), epsilon).y, weights);
        },
        x, gather(of_two));
    const auto of_one = op::rms_norm_backward(whole, dy, op::rms_norm(whole, epsilon).statistics);
    finite_differences::check(
        [&](auto const& moved) {
          return finite_differences::weighted_sum(op::rms_norm(distribute<cut>(team, moved), epsilon).y, weights);
        },
        x, gather(of_one));

    const auto none = distribute<row<all<N>>>(team, tensor<float, 2>({0, 4}));
    const auto [y, statistics] = op::layer_norm(none);
    CHECK(y.extents() == none.extents());
    CHECK(op::layer_norm_backward(none, y, statistics).extents() == none.extents());
  });
}

TEST_CASE("rows whose mean is large and which are cut keep their digits") {
  run([]<int N>(auto& team) {
    auto x = worlds::values<float>(shape<2>{3, 301}, 1);
    for (float& v : x.view()) v = 1e4f + 1e-2f * v;
    const auto wanted = gather(op::layer_norm(distribute<replicated>(team, x)).y);
    CHECK(worlds::difference(gather(op::layer_norm(distribute<column<all<N>>>(team, x)).y), wanted) < 1e-5);
    double squares = 0;
    for (const float v : wanted.view()) squares += static_cast<double>(v) * static_cast<double>(v);
    CHECK(std::abs(squares / (3 * 301) - 1) < 0.35);  // a deviation of 1e-2 in steps of 1e-3, and epsilon
  });
}

TEST_CASE("a cut of what is normalised over costs one message forward and one backward, other cuts none") {
  run([]<int N>(auto&) {
    const recording<mpi_comm> log{mpi_comm{}};
    tessera::team<all_ranks<N>, recording<mpi_comm>> team{log};
    auto& calls = team.group(all_ranks<N>::all);
    const auto whole = worlds::values<float>(shape<2>{6, 8}, 1);
    const auto count = [&](auto layout, auto centred) {
      const auto x = distribute<decltype(layout)>(team, whole);
      calls.clear();
      if constexpr (decltype(centred)::value) {
        const auto [y, statistics] = op::layer_norm(x);
        op::layer_norm_backward(x, y, statistics);
      } else {
        const auto [y, statistics] = op::rms_norm(x);
        op::rms_norm_backward(x, y, statistics);
      }
      return calls.calls();
    };
    CHECK(count(row<all<N>>{}, std::true_type{}).empty());
    CHECK(count(row<all<N>>{}, std::false_type{}).empty());
    if constexpr (N > 1) {
      const auto with_means = count(column<all<N>>{}, std::true_type{});
      REQUIRE(with_means.size() == 2);
      CHECK(with_means[0].kind == collective::all_reduce);
      CHECK(with_means[0].elements == 2 * 6);
      CHECK(with_means[1].kind == collective::all_reduce);
      CHECK(with_means[1].elements == 2 * 6);
      const auto without = count(column<all<N>>{}, std::false_type{});
      REQUIRE(without.size() == 2);
      CHECK(without[0].elements == 6);
      CHECK(without[1].elements == 6);
    }
  });
}

TEST_CASE("parameters and gradients of other extents are errors") {
  run([]<int N>(auto& team) {
    const auto x = distribute<replicated>(team, worlds::values<float>(shape<2>{4, 6}, 1));
    const auto w = distribute<replicated>(team, worlds::values<float>(shape<1>{5}, 1));
    CHECK_THROWS_WITH_AS(op::layer_norm(x, w, w), doctest::Contains("extent of the weight of layer_norm is 5"), error);
    CHECK_THROWS_WITH_AS(op::rms_norm(x, w), doctest::Contains("extent of the weight of rms_norm is 5"), error);
    const auto [y, statistics] = op::layer_norm(x);
    const auto dy = distribute<replicated>(team, worlds::values<float>(shape<2>{4, 5}, 1));
    CHECK_THROWS_WITH_AS(op::layer_norm_backward(x, dy, statistics), doctest::Contains("[4, 5]"), error);
    const auto other = distribute<replicated>(team, worlds::values<float>(shape<2>{3, 6}, 1));
    CHECK_THROWS_WITH_AS(op::layer_norm_backward(other, other, statistics), doctest::Contains("number of statistics"),
                         error);
  });
}
