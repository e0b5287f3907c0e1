#include "support/worlds.hpp"

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
      "tessera: a batch of 0 rows cut into 1 parts; wanted at least one row a part; enlarge the batch, "
      "or use fewer data-parallel ranks",
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
