#include "support/worlds.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/train/trainer.hpp>

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

}  // namespace
