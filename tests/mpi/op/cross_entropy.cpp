#include "on_ranks.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/cross_entropy.hpp>

#include <cmath>

namespace {

using namespace on_ranks;

/// The loss of rows that are cut, and the sizes of its messages in bytes.
template <int N, class T>
std::pair<double, std::vector<index_t>> loss_of(tensor<T, 2> const& logits, std::vector<std::int64_t> const& labels,
                                                cross_entropy_options const& options = {}) {
  const recording<mpi_comm> log{mpi_comm{}};
  tessera::team<all_ranks<N>, recording<mpi_comm>> team{log};
  auto& calls = team.group(all_ranks<N>::all);
  const auto x = distribute<row<all<N>>>(team, logits);
  calls.clear();
  const op::cross_entropy<std::remove_const_t<decltype(x)>> loss(x, worlds::rows_of(labels, x.part()[0]), options);
  std::vector<index_t> bytes;
  for (auto const& call : calls.calls()) bytes.push_back(call.elements * static_cast<index_t>(call.element_bytes));
  return {loss.loss(), bytes};
}

}  // namespace

TEST_CASE_TEMPLATE("a loss of cut rows is one number, and three doubles more where not all rows count alike", T, float,
                   double) {
  constexpr auto number = static_cast<index_t>(sizeof(T));
  run([]<int N>(auto&) {
    using sizes = std::vector<index_t>;
    const auto expect = [](sizes wanted) { return N == 1 ? sizes{} : wanted; };
    const auto logits = worlds::values<T>(shape<2>{9, 6}, 1);
    const auto labels = worlds::labels(9, 6, 2);
    const auto plain = loss_of<N>(logits, labels);
    CHECK(plain.second == expect({number}));

    // One row is ignored: the mean is over the others.
    auto fewer = labels;
    fewer[4] = -100;
    cross_entropy_options sum;
    sum.reduce = loss_reduction::sum;
    const auto without = loss_of<N>(logits, fewer);
    CHECK(without.second == expect({number, 24}));
    CHECK(without.first == doctest::Approx(loss_of<N>(logits, fewer, sum).first / 8).epsilon(1e-6));

    cross_entropy_options weighted;
    weighted.class_weights = {1, 2, 3, 4, 5, 6};
    CHECK(loss_of<N>(logits, labels, weighted).second == expect({24}));

    // A loss that is not a number is not mistaken for the sign of another rank.
    auto spoilt = logits.clone();
    spoilt(3, 2) = std::numeric_limits<T>::quiet_NaN();
    const auto nothing = loss_of<N>(spoilt, labels);
    CHECK(std::isnan(nothing.first));
    CHECK(nothing.second == expect({number, 24}));
    // Nor is the NaN of a row that is ignored part of the loss.
    auto ignored = labels;
    ignored[3] = -100;
    CHECK(loss_of<N>(spoilt, ignored).first == doctest::Approx(loss_of<N>(logits, ignored).first).epsilon(1e-6));
  });
}

TEST_CASE("a sum of losses that float does not hold is sent in double") {
  run([]<int N>(auto&) {
    // Each row's loss is 3e38.
    tensor<float, 2> logits(shape<2>{4, 2}, 0.0f);
    for (index_t r = 0; r < 4; ++r) logits(r, 0) = 3e38f;
    const auto found = loss_of<N>(logits, std::vector<std::int64_t>(4, 1));
    CHECK(found.first == doctest::Approx(3e38).epsilon(1e-6));
  });
}
