#include "support/golden_worlds.hpp"

#include <tessera/op/cross_entropy.hpp>

namespace {

using namespace tessera;

cross_entropy_options options_of(golden::test_case const& c) {
  cross_entropy_options o;
  const std::string reduce = c.given.text("reduction", "mean");
  o.reduce = reduce == "none" ? loss_reduction::none : reduce == "sum" ? loss_reduction::sum : loss_reduction::mean;
  o.ignore_index = static_cast<std::int64_t>(c.given.number("ignore_index", -100));
  o.label_smoothing = c.given.number("label_smoothing", 0);
  if (c.has("class_weight")) o.class_weights = c["class_weight"].values;
  return o;
}

struct cross_entropy_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using layout = typename Cuts::template of<'n', 'c'>;
    const auto logits = golden::put<T, 2, layout>(team, t["logits"]);
    using logits_type = std::remove_const_t<decltype(logits)>;
    const auto o = options_of(t.what());
    if (t.what().given.text("target", "index") == "probability") {
      compare<T, Cuts>(team, t, op::cross_entropy(logits, golden::put<T, 2, layout>(team, t["target"]), o), o.reduce);
    } else {
      const std::vector<std::int64_t> all(t["target"].values.begin(), t["target"].values.end());
      const auto labels = worlds::rows_of(all, logits.part()[0]);
      compare<T, Cuts>(team, t, op::cross_entropy<logits_type>(logits, labels, o), o.reduce);
    }
  }

 private:
  template <class T, class Cuts, class Team, class Loss>
  static void compare(Team& team, golden::trial& t, Loss const& loss, loss_reduction reduce) {
    if (reduce == loss_reduction::none) {
      golden::expect(t, "out", loss.row_losses());
      const auto dy = golden::put_gradient<std::remove_cvref_t<decltype(loss.row_losses())>>(team, t["grad_out"]);
      golden::expect(t, "grad_logits", loss.backward(dy));
    } else {
      t.expect("out", {}, {loss.loss()});
      golden::expect(t, "grad_logits", loss.backward(t["grad_out"].values.at(0)));
    }
  }
};

const golden::built here("cross_entropy");

}  // namespace

TEST_CASE("cross_entropy equals its reference cases") {
  golden::run("cross_entropy", golden::run_cuts<cross_entropy_case, 'n', 'c'>);
}
