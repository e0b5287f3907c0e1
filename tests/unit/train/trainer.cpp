#include "support/worlds.hpp"

#include <tessera/backend/deterministic.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/train/token_batches.hpp>
#include <tessera/train/trainer.hpp>

#include <cmath>
#include <initializer_list>
#include <limits>

namespace {

using namespace tessera;
using tessera::index_t;

struct one : axis<1> {};
using alone = worlds::serial_team<mesh<one>>;

TEST_CASE("a step on a batch without rows is refused") {
  alone team{serial_comm{}};
  auto net = team.make<parallel<linear<4, 3>, data_parallel<one>>>();
  trainer fit(net, cross_entropy{}, momentum{});
  const auto x = distribute<row<one>>(team, tensor<float, 2>(shape<2>{{0, 4}}));
  CHECK_THROWS_WITH_AS(
      fit.step(x, std::vector<std::int64_t>{}),
      "tessera: a batch of 0 rows cut into 1 parts; wanted at least one row a part; enlarge the batch, leave out a "
      "smaller last one (sampler_options::drop_last), or use fewer data-parallel ranks",
      error);
}

TEST_CASE("a step with a label that is no class leaves the parameters alone") {
  alone team{serial_comm{}};
  auto net = team.make<parallel<linear<4, 3>, data_parallel<one>>>();
  trainer fit(net, cross_entropy{}, momentum{});
  const auto x = distribute<row<one>>(team, worlds::values<float>(shape<2>{{2, 4}}, 1));
  const auto weight = net.parameters().front().value;
  const std::vector<float> before(weight.begin(), weight.end());
  CHECK_THROWS_AS(fit.step(x, std::vector<std::int64_t>{0, 3}), error);
  CHECK(std::equal(before.begin(), before.end(), weight.begin()));
  fit.step(x, std::vector<std::int64_t>{0, 2});
  CHECK(!std::equal(before.begin(), before.end(), weight.begin()));
}

TEST_CASE("a momentum that is set while training begins from nothing") {
  alone team{serial_comm{}};
  auto net = team.make<parallel<linear<4, 3>, data_parallel<one>>>();
  trainer fit(net, cross_entropy{}, sgd(0.1));
  const auto step = [&](auto& trains, std::uint64_t number) {
    const auto x = distribute<row<one>>(team, worlds::values<float>(shape<2>{{2, 4}}, number));
    trains.step(x, std::vector<std::int64_t>{0, 2});
  };
  step(fit, 1);
  fit.optimizer().momentum = 0.9;
  const auto look = [](char const*, auto&) {};
  CHECK_THROWS_WITH_AS(fit.optimizer().visit_state(fit.optimizer_state(), look),
                       doctest::Contains("a momentum that was 0 in the last step"), error);
  step(fit, 2);
  step(fit, 3);
  CHECK_NOTHROW(fit.optimizer().visit_state(fit.optimizer_state(), look));

  auto other = team.make<parallel<linear<4, 3>, data_parallel<one>>>();
  trainer plain(other, cross_entropy{}, sgd(0.1));
  step(plain, 1);
  trainer anew(other, cross_entropy{}, momentum{.learning_rate = 0.1, .momentum = 0.9});
  step(anew, 2);
  step(anew, 3);
  for (std::size_t i = 0; i < net.parameters().size(); ++i) {
    const auto found = net.parameters()[i].value;
    CHECK(std::equal(found.begin(), found.end(), other.parameters()[i].value.begin()));
  }
}

/// 20 rows of four values, in three classes.
struct twenty_rows {
  index_t batch = 8;
  sampler_options sampling{};
  index_t rows() const { return 20; }
  template <class Network>
  loaded_batch<typename Network::input_type> load(Network& model, std::span<index_t const> rows) const {
    const shape<2> extents{{static_cast<index_t>(rows.size()), 4}};
    return {typename Network::input_type(model.where(), extents), std::vector<std::int64_t>(rows.size())};
  }
  template <class Network>
  index_t output_rows(Network const&, index_t n) const {
    return n;
  }
};

TEST_CASE("what deterministic kernels cannot train on is refused before training begins") {
  team<mesh<>, serial_comm, deterministic<8>> alone{serial_comm{}};
  auto net = alone.make<linear<4, 3>>();
  CHECK_THROWS_WITH_AS((trainer{net, cross_entropy{}, sgd(0.1), {.micro_batches = 2}}),
                       doctest::Contains("options::micro_batches with deterministic kernels"), error);
  trainer fit(net, cross_entropy{}, sgd(0.1));
  CHECK_THROWS_WITH_AS(fit.fit(twenty_rows{.sampling = {.drop_last = false}}, epochs{1}),
                       doctest::Contains("a batch of 4 rows in 8 blocks"), error);
  CHECK(fit.steps() == 0);
  fit.fit(twenty_rows{}, epochs{1});
  CHECK(fit.steps() == 2);
}

TEST_CASE("rows that a text does not have are refused") {
  alone team{serial_comm{}};
  auto net = team.make<parallel<embedding<5, 4>, input<dynamic, 4>, data_parallel<one>>>();
  const std::vector<std::int64_t> text{0, 1, 2, 3, 4, 0, 1, 2, 3};
  const token_batches two{text, 4, 1};
  CHECK(two.load(net, std::vector<index_t>{1}).targets == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK_THROWS_WITH_AS(
      two.load(net, std::vector<index_t>{2}),
      "tessera: row 2 of a text of 2 sequences; wanted rows of the text; make the sampler for this text", error);
  CHECK_THROWS_AS(two.load(net, std::vector<index_t>{-1}), error);
  const std::vector<std::int64_t> shorter{0, 1, 2, 3};
  CHECK_THROWS_AS((token_batches{shorter, 4, 1}.load(net, std::vector<index_t>{0})), error);
}

TEST_CASE("a mean loss with an infinite part is infinite, and NaN with a NaN only") {
  struct part {
    double value;
    double loss() const { return value; }
  };
  const auto mean = [](std::initializer_list<double> losses) {
    detail::loss_total total;
    for (const double loss : losses) total.add(part{loss}, 2);
    return total.value();
  };
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(mean({1, 2, 6}) == doctest::Approx(3));
  CHECK(mean({infinite, 1}) == infinite);
  CHECK(mean({1, infinite, 1, infinite}) == infinite);
  CHECK(mean({-infinite, 1}) == -infinite);
  CHECK(std::isnan(mean({1, std::nan(""), 1})));
}

}  // namespace
