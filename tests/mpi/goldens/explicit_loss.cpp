#include "support/golden_worlds.hpp"

#include <tessera/op/explicit_loss.hpp>

#include <limits>

namespace {

using namespace tessera;

/// The largest difference of two logits of one row.
double spread(golden::array const& logits) {
  const auto columns = static_cast<std::size_t>(logits.extents.at(1));
  double most = 0;
  for (std::size_t i = 0; i + columns <= logits.values.size() && columns > 0; i += columns) {
    const auto row = logits.values.begin() + static_cast<std::ptrdiff_t>(i);
    const auto [low, high] = std::minmax_element(row, row + static_cast<std::ptrdiff_t>(columns));
    most = std::max(most, *high - *low);
  }
  return most;
}

struct explicit_loss_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using layout = typename Cuts::template of<'n', 'c'>;
    const auto logits = golden::put<T, 2, layout>(team, t["logits"]);
    const auto targets = golden::put<T, 2, layout>(team, t["target"]);
    const bool mean = t.what().given.text("form") == "negative_mean_log_softmax_times_target";
    const double factor = mean ? -1.0 / static_cast<double>(logits.extent(0)) : 1.0;
    // Taken literally, the smallest probability of a row must be a normal number.
    const bool stable = spread(t["logits"]) + std::log(static_cast<double>(logits.extent(1))) >
                        -std::log(static_cast<double>(std::numeric_limits<T>::min()));
    const op::explicit_loss loss(logits, targets, factor, stable);
    t.expect("out", {}, {loss.loss()});
    golden::expect(t, "grad_logits", loss.backward(t["grad_out"].values.at(0)));
  }
};

const golden::built here("custom_loss");

}  // namespace

TEST_CASE("explicit_loss equals the reference cases of a custom loss") {
  golden::run("custom_loss", [](golden::teams& all, golden::test_case const& c) {
    const std::string form = c.given.text("form");
    if (form != "sum_log_softmax_times_target" && form != "negative_mean_log_softmax_times_target") return false;
    return golden::run_cuts<explicit_loss_case, 'n', 'c'>(all, c);
  });
}
