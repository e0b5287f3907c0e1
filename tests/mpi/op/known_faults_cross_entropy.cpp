#include "on_ranks.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/cross_entropy.hpp>
#include <tessera/redistribute/to.hpp>

// Faults of cross-entropy that were found in other libraries.

namespace {

using namespace on_ranks;
using on_ranks::index_t;

/// Loss and whole gradient of a cross-entropy of logits that are cut as `Layout` says.
template <class T>
struct outcome {
  double loss;
  tensor<T, 2> gradient;
};

template <class Layout, class T, class Team>
outcome<T> cross_entropy_of(Team& team, tensor<T, 2> const& logits, std::vector<std::int64_t> const& labels,
                            cross_entropy_options const& options = {}) {
  const auto x = distribute<Layout>(team, logits);
  using logits_type = std::remove_const_t<decltype(x)>;
  const op::cross_entropy<logits_type> loss(x, worlds::rows_of(labels, x.part()[0]), options);
  return {loss.loss(), gather(loss.backward())};
}

template <class T>
outcome<T> serial(tensor<T, 2> const& logits, std::vector<std::int64_t> const& labels,
                  cross_entropy_options const& options = {}) {
  alone team{serial_comm{}};
  return cross_entropy_of<replicated>(team, logits, labels, options);
}

TEST_CASE_TEMPLATE("C38: label smoothing counts all classes, wherever they are", T, float, double) {
  const double bound = std::is_same_v<T, float> ? 1e-6 : 1e-14;
  const auto logits = worlds::values<T>(shape<2>{{6, 8}}, 1);
  const auto labels = worlds::labels(6, 8, 2);
  cross_entropy_options options;
  options.label_smoothing = 0.1;
  const auto wanted = serial(logits, labels, options);
  // By hand: 0.9 of the loss of the label, 0.1 of the mean loss of all eight.
  double by_hand = 0;
  for (index_t r = 0; r < 6; ++r) {
    double sum = 0;
    double mean = 0;
    for (index_t c = 0; c < 8; ++c) {
      sum += std::exp(static_cast<double>(logits(r, c)));
      mean += static_cast<double>(logits(r, c)) / 8;
    }
    by_hand += std::log(sum) - 0.9 * static_cast<double>(logits(r, labels[static_cast<std::size_t>(r)])) - 0.1 * mean;
  }
  CHECK(wanted.loss == doctest::Approx(by_hand / 6).epsilon(1e-6));
  run([&]<int Size>(auto& team) {
    const auto by_class = cross_entropy_of<column<all<Size>>>(team, logits, labels, options);
    CHECK(std::abs(by_class.loss - wanted.loss) <= bound * wanted.loss);
    CHECK(worlds::difference(by_class.gradient, wanted.gradient) <= bound);
    const auto by_row = cross_entropy_of<row<all<Size>>>(team, logits, labels, options);
    CHECK(std::abs(by_row.loss - wanted.loss) <= bound * wanted.loss);
    CHECK(worlds::difference(by_row.gradient, wanted.gradient) <= bound);
  });
}

// A rank that throws alone leaves the others in their reductions for ever.
TEST_CASE("labels that are too few on one rank are an error on all") {
  const auto logits = worlds::values<double>(shape<2>{{8, 5}}, 1);
  run([&]<int Size>(auto& team) {
    const auto x = distribute<row<all<Size>>>(team, logits);
    auto mine = worlds::rows_of(worlds::labels(8, 5, 2), x.part()[0]);
    const interval last = cut({0, 8}, Size, Size - 1);
    if (x.part()[0] == last) mine.pop_back();
    CHECK_THROWS_WITH_AS((op::cross_entropy<std::remove_const_t<decltype(x)>>(x, mine)),
                         ("tessera: " + std::to_string(last.size - 1) + " labels for the " + std::to_string(last.size) +
                          " rows that a rank has from row " + std::to_string(last.begin) +
                          " of the batch on; wanted one label a row; give each rank the labels of its own rows: cut "
                          "them like the rows of the logits")
                             .c_str(),
                         error);
  });
}

// The mean over no rows is 0 / 0, as in PyTorch; its gradient is 0.
TEST_CASE("C42: ignored rows, of one rank or of all") {
  const auto logits = worlds::values<double>(shape<2>{{8, 5}}, 1);
  auto labels = worlds::labels(8, 5, 2);
  run([&]<int Size>(auto& team) {
    auto some = labels;
    const index_t first = cut({0, 8}, Size, 0).size;
    if (Size > 1) std::fill_n(some.begin(), first, -100);
    const auto wanted = serial(logits, some);
    CHECK(std::isfinite(wanted.loss));
    const auto found = cross_entropy_of<row<all<Size>>>(team, logits, some);
    CHECK(found.loss == doctest::Approx(wanted.loss).epsilon(1e-14));
    CHECK(worlds::difference(found.gradient, wanted.gradient) <= 1e-14);

    const std::vector<std::int64_t> none(8, -100);
    for (const loss_reduction reduce : {loss_reduction::mean, loss_reduction::sum}) {
      cross_entropy_options options;
      options.reduce = reduce;
      for (auto const& empty : {cross_entropy_of<row<all<Size>>>(team, logits, none, options),
                                cross_entropy_of<column<all<Size>>>(team, logits, none, options)}) {
        if (reduce == loss_reduction::mean)
          CHECK(std::isnan(empty.loss));
        else
          CHECK(empty.loss == 0);
        CHECK(std::all_of(empty.gradient.read().begin(), empty.gradient.read().end(), [](double g) { return g == 0; }));
      }
    }
  });
}

TEST_CASE("C43: whole logits give the serial loss, without messages") {
  const auto logits = worlds::values<double>(shape<2>{{6, 8}}, 1);
  const auto labels = worlds::labels(6, 8, 2);
  const auto wanted = serial(logits, labels);
  run([&]<int Size>(auto&) {
    recording world{mpi_comm{}};
    team<all_ranks<Size>, decltype(world)> recorded{world};
    const auto x = distribute<column<all<Size>>>(recorded, logits) | to<replicated>;
    auto const& calls = recorded.group(1).calls();
    const std::size_t before = calls.size();
    const op::cross_entropy<std::remove_const_t<decltype(x)>> loss(x, labels);
    CHECK(loss.loss() == wanted.loss);
    CHECK(same_bits(loss.backward().local(), wanted.gradient));
    CHECK(calls.size() == before);
  });
}

TEST_CASE("C45: a NaN among the logits of any rank makes the loss NaN on all") {
  run([]<int Size>(auto& team) {
    const std::vector<std::int64_t> labels(Size, 0);
    for (index_t at = 0; at < Size; ++at) {
      CAPTURE(at);
      auto logits = worlds::values<float>(shape<2>{{Size, Size}}, 1);
      logits(at, at) = NAN;
      CHECK(std::isnan(cross_entropy_of<row<all<Size>>>(team, logits, labels).loss));
      CHECK(std::isnan(cross_entropy_of<column<all<Size>>>(team, logits, labels).loss));
    }
  });
}

TEST_CASE("a label that is no class is named on all ranks with its row in the whole batch") {
  const auto logits = worlds::values<float>(shape<2>{{8, 5}}, 1);
  run([&]<int Size>(auto& team) {
    std::vector<std::int64_t> labels(8, 0);
    const auto refuse = [&](std::string const& found) {
      const std::string text = "tessera: " + found +
                               " of the batch; wanted 0 to 4, or -100 to ignore the row; mend the data, or give the "
                               "model as many outputs as there are classes";
      CHECK_THROWS_WITH_AS((cross_entropy_of<column<all<Size>>>(team, logits, labels)), text.c_str(), error);
      CHECK_THROWS_WITH_AS((cross_entropy_of<row<all<Size>>>(team, logits, labels)), text.c_str(), error);
    };
    labels[7] = 5;
    refuse("label 5 in row 7");
    labels[1] = -3;
    refuse("label -3 in row 1");
    labels[0] = 6;
    refuse("label 6 in row 0");
  });
}

}  // namespace
