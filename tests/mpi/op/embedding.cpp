#include "on_ranks.hpp"

#include "support/finite_differences.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/embedding.hpp>

namespace {

using namespace on_ranks;

tensor<std::int64_t, 2> some_indices(shape<2> const& extents, index_t vocabulary) {
  tensor<std::int64_t, 2> out(extents);
  const auto drawn = worlds::labels(extents.size(), vocabulary, 4);
  std::copy(drawn.begin(), drawn.end(), out.data());
  return out;
}

/// The gradient of an embedding whose indices and weight have these layouts, by differences.
template <class IndexLayout, class WeightLayout, class GradientLayout, class Team>
void check_gradient(Team& team, std::int64_t padding) {
  const auto indices = distribute<IndexLayout>(team, some_indices({3, 4}, 5));
  const auto weight = worlds::values<double>(shape<2>{5, 3}, 1);
  const auto weights = worlds::values<double>(shape<3>{3, 4, 3}, 2);
  const auto forward = [&](auto const& w) { return op::embedding(indices, distribute<WeightLayout>(team, w)); };
  using result = decltype(forward(weight));
  using upstream = layout_of<typename result::mesh, dual(result::placements)>;
  sharded<double, 2, GradientLayout, Team> dweight(team, weight.extents());
  op::embedding_backward(indices, distribute<upstream>(team, weights), dweight, padding);
  auto found = gather(dweight);
  if (padding != no_padding) {
    for (index_t f = 0; f < 3; ++f) {
      CHECK(found(padding, f) == 0);
      double sum = 0;
      for (index_t n = 0; n < 3; ++n)
        for (index_t s = 0; s < 4; ++s)
          if (some_indices({3, 4}, 5)(n, s) == padding) sum += weights(n, s, f);
      found(padding, f) = sum;
    }
  }
  finite_differences::check(
      [&](auto const& moved) { return finite_differences::weighted_sum(forward(moved), weights); }, weight, found);
}

}  // namespace

TEST_CASE("the gradient of an embedding is that of differences") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    for (const std::int64_t padding : {no_padding, std::int64_t{1}}) {
      check_gradient<row<axis>, replicated, partial<axis>>(team, padding);
      check_gradient<column<axis>, replicated, partial<axis>>(team, padding);
      check_gradient<replicated, row<axis>, row<axis>>(team, padding);
      check_gradient<replicated, column<axis>, column<axis>>(team, padding);
    }
  });
}

TEST_CASE("a cut vocabulary gives a partial sum of rows that are looked up as they are, bit by bit") {
  run([]<int N>(auto& team) {
    auto weight = worlds::values<float>(shape<2>{3, 4}, 1);  // some ranks hold no row
    weight(1, 2) = std::numeric_limits<float>::quiet_NaN();
    const auto indices = distribute<replicated>(team, some_indices({5, 2}, 3));
    const auto y = op::embedding(indices, distribute<row<all<N>>>(team, weight));
    if constexpr (N > 1) static_assert(decltype(y)::placements[0].is_partial());
    CHECK(worlds::difference(gather(y), gather(op::embedding(indices, distribute<replicated>(team, weight)))) == 0);
  });
}

TEST_CASE("many gradients of one row add up as in double, in the order of their places") {
  run([]<int N>(auto& team) {
    const index_t places = 100000;
    const auto indices = distribute<replicated>(team, tensor<std::int64_t, 1>({places}, 1));
    const auto dy = worlds::values<float>(shape<2>{places, 2}, 3);
    sharded<float, 2, replicated, std::remove_reference_t<decltype(team)>> dweight(team, {{2, 2}});
    op::embedding_backward(indices, distribute<replicated>(team, dy), dweight);
    for (index_t f = 0; f < 2; ++f) {
      double sum = 0;
      for (index_t i = 0; i < places; ++i) sum += static_cast<double>(dy(i, f));
      CHECK(dweight.local()(0, f) == 0);
      CHECK(static_cast<double>(dweight.local()(1, f)) == doctest::Approx(sum).epsilon(1e-5));
    }
    const auto first = dweight.local().clone();
    op::embedding_backward(indices, distribute<replicated>(team, dy), dweight);
    CHECK(same_bits(dweight.local(), first));
  });
}

TEST_CASE("an index that names no row is an error that names index and place, on all ranks that have it") {
  run([]<int N>(auto& team) {
    const auto weight = distribute<row<all<N>>>(team, worlds::values<float>(shape<2>{6, 2}, 1));
    for (const std::int64_t bad : {6, -1}) {
      auto values = some_indices({5, 3}, 6);
      values(4, 1) = bad;
      const auto text = "index " + std::to_string(bad) + " at [4, 1] of an embedding";
      const auto whole = distribute<replicated>(team, values);
      CHECK_THROWS_WITH_AS(op::embedding(whole, weight), doctest::Contains(text.c_str()), error);
      const auto cut = distribute<row<all<N>>>(team, values);
      const auto all_rows = distribute<replicated>(team, worlds::values<float>(shape<2>{6, 2}, 1));
      if (cut.part()[0].end() == 5 && cut.part()[0].size > 0)
        CHECK_THROWS_WITH_AS(op::embedding(cut, all_rows), doctest::Contains(text.c_str()), error);
      else
        CHECK_NOTHROW(op::embedding(cut, all_rows));
    }
  });
}

TEST_CASE("an embedding sends nothing, and indices change their layout like any tensor") {
  run([]<int N>(auto&) {
    const recording<mpi_comm> log{mpi_comm{}};
    tessera::team<all_ranks<N>, recording<mpi_comm>> team{log};
    auto& calls = team.group(all_ranks<N>::all);
    const auto values = some_indices({5, 3}, 6);
    const auto indices = distribute<row<all<N>>>(team, values);
    const auto weight = distribute<replicated>(team, worlds::values<float>(shape<2>{6, 2}, 1));
    calls.clear();
    const auto y = op::embedding(indices, weight);
    sharded<float, 2, partial<all<N>>, std::remove_reference_t<decltype(team)>> dweight(team, weight.extents());
    op::embedding_backward(indices, y, dweight);
    CHECK(calls.calls().empty());
    CHECK(same_bits(gather(indices), values));
    CHECK(same_bits(gather(indices | to<column<all<N>>>), values));
  });
}
