#include "support/golden_worlds.hpp"

#include <tessera/op/batch_norm.hpp>
#include <tessera/op/conv2d.hpp>
#include <tessera/op/elementwise.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

/// relu(x + bn(conv(relu(bn(conv(x)))))), written in operators because the channels of a layer are static.
///
/// Letters: n the batch, m the channels between the two convolutions.
struct residual_block_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using outer = typename Cuts::template of<'n', 'o', 'h', 'w'>;
    using inner = typename Cuts::template of<'n', 'm', 'h', 'w'>;
    const auto x = golden::put<T, 4, outer>(team, t["x"]);
    using to_inner = typename Cuts::template of<'m', 'o', 'r', 's'>;
    using to_outer = typename Cuts::template of<'o', 'm', 'r', 's'>;
    unit<T, to_inner, typename Cuts::template of<'m'>, inner, Team> first(team, t, 1);
    unit<T, to_outer, typename Cuts::template of<'o'>, outer, Team> second(team, t, 2);

    const auto h = op::relu(first.forward(x));
    const auto y = op::relu(x + second.forward(h));
    golden::expect(t, "out", y);

    const auto d_sum = op::relu_backward(y, golden::put<T, 4, outer>(team, t["grad_out"]));
    const auto dh = second.backward(d_sum, h);
    const auto dx = first.backward(op::relu_backward(h, redistribute<inner>(dh)), x);
    golden::expect(t, "grad_x", redistribute<outer>(dx) + d_sum);
  }

 private:
  /// A 3x3 convolution and its batch norm. `Weight`, `Channels` and `Output` are layouts.
  template <class T, class Weight, class Channels, class Output, class Team>
  struct unit {
    using image = sharded<T, 4, Output, Team>;

    unit(Team& on, golden::trial& of, int which)
        : team(on),
          t(of),
          number(std::to_string(which)),
          weight(golden::put<T, 4, Weight>(on, of["conv" + number + "_weight"])),
          gamma(golden::put<T, 1, Channels>(on, of["bn" + number + "_weight"])),
          beta(golden::put<T, 1, Channels>(on, of["bn" + number + "_bias"])),
          mean(golden::put<T, 1, Channels>(on, of["running_mean" + number + "_in"])),
          variance(golden::put<T, 1, Channels>(on, of["running_var" + number + "_in"])) {}

    template <class X>
    image forward(X const& x) {
      auto const& given = t.what().given;
      auto y = op::conv2d(x, weight, geometry);
      const std::string bias = "conv" + number + "_bias";
      if (t.has(bias)) op::add_bias_once(y, golden::put<T, 1, Channels>(team, t[bias]));
      convolved = redistribute<Output>(y);
      training = given.is("training");
      const double epsilon = given.number("eps");
      statistics = training ? op::batch_norm_statistics(convolved, given.number("momentum"), epsilon, mean, variance)
                            : op::batch_norm_running(epsilon, mean, variance);
      golden::expect(t, "running_mean" + number, mean);
      golden::expect(t, "running_var" + number, variance);
      return op::batch_norm(convolved, statistics, gamma.read(), beta.read());
    }

    /// The gradient of the unit's input, partial where the channels of its output are cut.
    template <class X>
    auto backward(image const& dy, X const& x) {
      const auto sums = op::batch_norm_backward_sums(convolved, dy, statistics);
      sharded<T, 1, Channels, Team> d_beta(team, gamma.extents());
      sharded<T, 1, Channels, Team> d_gamma(team, gamma.extents());
      golden::assign(d_beta, sums.read().data);
      golden::assign(d_gamma, sums.read().data + gamma.local().size());
      golden::expect(t, "grad_bn" + number + "_bias", d_beta);
      golden::expect(t, "grad_bn" + number + "_weight", d_gamma);

      const image dc = training ? op::batch_norm_backward_input(convolved, dy, statistics, gamma.read(), sums)
                                : op::batch_norm_backward_evaluation(dy, statistics, gamma.read());
      result_of<detail::conv2d_weight_gradient_op<1>, 4, image, X> dw(team, weight.extents());
      op::conv2d_backward_weight(dc, x, dw, geometry);
      golden::expect(t, "grad_conv" + number + "_weight", dw);
      if (t.has("conv" + number + "_bias")) {
        result_of<detail::bias_gradient_op<4>, 1, image> db(team, gamma.extents());
        op::bias_backward(dc, db);
        golden::expect(t, "grad_conv" + number + "_bias", db);
      }
      return op::conv2d_backward_input(dc, weight, x.extents(), geometry);
    }

    static constexpr conv2d_geometry geometry{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
    Team& team;
    golden::trial& t;
    std::string number;
    sharded<T, 4, Weight, Team> weight;
    sharded<T, 1, Channels, Team> gamma;
    sharded<T, 1, Channels, Team> beta;
    sharded<T, 1, Channels, Team> mean;
    sharded<T, 1, Channels, Team> variance;
    image convolved{};
    channel_statistics<typename Team::backend::memory, typename Team::backend::statistic> statistics{};
    bool training = true;
  };
};

const golden::built here("residual_block");

}  // namespace

TEST_CASE("a residual block of operators equals its reference cases") {
  golden::run("residual_block", [](golden::teams& all, golden::test_case const& c) {
    if (c.given.text("layers") != "conv3x3 pad 1, bn, relu, conv3x3 pad 1, bn, add input, relu") return false;
    return golden::run_cuts<residual_block_case, 'n', 'm'>(all, c);
  });
}
