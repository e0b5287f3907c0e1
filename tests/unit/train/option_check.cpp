#include "support/worlds.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/train/trainer.hpp>

#include <limits>

namespace {

using namespace tessera;
using tessera::index_t;

constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr double endless = std::numeric_limits<double>::infinity();

template <class Optimizer>
void refuses(double Optimizer::*option, std::initializer_list<double> values) {
  for (const double value : values) {
    CAPTURE(value);
    Optimizer with;
    with.*option = value;
    CHECK_THROWS_AS(with.check(), error);
  }
}

template <class Optimizer>
void refuses_what_adam_does() {
  Optimizer{}.check();
  for (const auto option : {&Optimizer::learning_rate, &Optimizer::epsilon, &Optimizer::weight_decay})
    refuses(option, {-1e-9, none, endless});
  for (const auto option : {&Optimizer::beta1, &Optimizer::beta2}) refuses(option, {-1e-9, 1.0, none, endless});
}

TEST_CASE("options of optimizers that make no sense are refused") {
  refuses_what_adam_does<adam>();
  refuses_what_adam_does<adamw>();
  momentum{}.check();
  sgd(0).check();
  for (const auto option :
       {&momentum::learning_rate, &momentum::momentum, &momentum::dampening, &momentum::weight_decay})
    refuses(option, {-1e-9, none, endless});
  CHECK_THROWS_WITH_AS(adam{.beta2 = 1}.check(),
                       "tessera: beta2 of 1.000000; wanted a number from 0 to below 1; mend the option", error);
  CHECK_THROWS_WITH_AS(momentum{.learning_rate = -0.5}.check(),
                       "tessera: the learning_rate of -0.500000; wanted a finite number of 0 or more; mend the option",
                       error);
}

TEST_CASE("a trainer refuses them before training, and where they change, before a parameter moves") {
  worlds::serial_team<mesh<>> team{serial_comm{}};
  auto net = team.make<linear<4, 3>>();
  CHECK_THROWS_AS(trainer(net, cross_entropy{}, adam{.beta1 = 1}), error);
  CHECK_THROWS_AS(trainer(net, cross_entropy{}, momentum{}, {.clip_norm = -1}), error);
  CHECK_THROWS_AS(trainer(net, cross_entropy{}, momentum{}, {.clip_norm = none}), error);

  const auto x = distribute<replicated>(team, worlds::values<float>(shape<2>{{2, 4}}, 1));
  const std::vector<std::int64_t> labels{0, 2};
  const auto weight = net.parameters().front().value;
  const std::vector<float> before(weight.begin(), weight.end());
  trainer by_hand(net, cross_entropy{}, momentum{});
  by_hand.optimizer().learning_rate = none;
  CHECK_THROWS_AS(by_hand.step(x, labels), error);
  trainer by_schedule(net, cross_entropy{}, adam{}, {.schedule = [](index_t) { return endless; }});
  CHECK_THROWS_AS(by_schedule.step(x, labels), error);
  CHECK(std::equal(before.begin(), before.end(), weight.begin()));
}

}  // namespace
