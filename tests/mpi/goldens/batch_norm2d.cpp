#include "support/golden_worlds.hpp"

#include <tessera/op/batch_norm.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

struct batch_norm_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    auto const& given = t.what().given;
    const double epsilon = given.number("eps");
    using channels = typename Cuts::template of<'c'>;
    const auto x = golden::put<T, 4, typename Cuts::template of<'n', 'c', 'h', 'w'>>(team, t["x"]);
    const auto vector_or = [&](char const* name, T otherwise) {
      if (t.has(name)) return golden::put<T, 1, channels>(team, t[name]);
      return distribute<channels>(team, tensor<T, 1>(shape<1>{{x.extent(1)}}, otherwise));
    };
    auto mean = vector_or("running_mean_in", 0);
    auto variance = vector_or("running_var_in", 1);
    const auto gamma = vector_or("weight", 1);
    const auto beta = vector_or("bias", 0);
    const bool training = given.is("training");
    block<T const, 1> scale;
    block<T const, 1> shift;
    if (given.is("affine")) {
      scale = gamma.read();
      shift = beta.read();
    }
    const auto s = training ? op::batch_norm_statistics(x, given.number("momentum"), epsilon, mean, variance)
                            : op::batch_norm_running(epsilon, mean, variance);
    golden::expect(t, "out", op::batch_norm(x, s, scale, shift));
    golden::expect(t, "running_mean", mean);
    golden::expect(t, "running_var", variance);

    const auto dy = golden::put_gradient<std::remove_const_t<decltype(x)>>(team, t["grad_out"]);
    const auto sums = op::batch_norm_backward_sums(x, dy, s);
    golden::expect(t, "grad_x",
                   training ? op::batch_norm_backward_input(x, dy, s, scale, sums)
                            : op::batch_norm_backward_evaluation(dy, s, scale));
    if (!given.is("affine")) return;
    auto d_weight = vector_or("weight", 0);
    auto d_bias = vector_or("bias", 0);
    const index_t local = d_bias.local().size();
    golden::assign(d_bias, sums.read().data);
    golden::assign(d_weight, sums.read().data + local);
    golden::expect(t, "grad_weight", d_weight);
    golden::expect(t, "grad_bias", d_bias);
  }
};

const golden::built here("batch_norm2d");

}  // namespace

TEST_CASE("batch_norm2d equals its reference cases") {
  golden::run("batch_norm2d", [](golden::teams& all, golden::test_case const& c) {
    return golden::run_cuts<batch_norm_case, 'n', 'c', 'h', 'w'>(all, c);
  });
}
