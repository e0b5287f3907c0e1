#include "support/worlds.hpp"

#include <tessera/backend/ascend.hpp>
#include <tessera/comm/serial.hpp>
#include <tessera/model/resnet.hpp>
#include <tessera/model/transformer.hpp>
#include <tessera/train/adam.hpp>
#include <tessera/train/optimizer.hpp>
#include <tessera/train/session.hpp>
#include <tessera/train/trainer.hpp>

#include <doctest/doctest.h>

// Networks train on one Ascend device as on the host.

#ifndef TESSERA_ASCEND_CHIP
#define TESSERA_ASCEND_CHIP ascend_910
#endif

namespace {

using namespace tessera;
using tessera::index_t;
using device_kernels = ascend<TESSERA_ASCEND_CHIP>;

template <class Model, class Team, int Rank, class Optimizer>
std::vector<double> losses(Team& team, shape<Rank> const& extents, index_t classes, Optimizer optimizer) {
  auto net = team.template make<Model>(seed{7});
  using input_type = typename decltype(net)::input_type;
  using element = typename input_type::value_type;
  trainer fit(net, cross_entropy{}, optimizer, {.clip_norm = 5});
  std::vector<double> found;
  for (std::uint64_t s = 0; s < 3; ++s) {
    tensor<element, Rank> whole(extents);
    index_t rows = extents[0];
    if constexpr (std::is_same_v<element, float>) {
      whole = worlds::values<float>(extents, s);
    } else {
      const auto words = worlds::labels(extents.size(), classes, s);
      std::copy(words.begin(), words.end(), whole.data());
      rows = extents.size();
    }
    const auto x = distribute<typename input_type::layout_type>(team, whole);
    found.push_back(fit.step(x, worlds::labels(rows, classes, s + 100)));
  }
  return found;
}

template <class Model, int Rank, class Optimizer>
void check(shape<Rank> const& extents, index_t classes, Optimizer optimizer) {
  team<mesh<>, serial_comm, eigen> host{serial_comm{}};
  const auto wanted = losses<Model>(host, extents, classes, optimizer);
  team<mesh<>, serial_comm, device_kernels> device{serial_comm{}};
  const auto found = losses<Model>(device, extents, classes, optimizer);
  for (std::size_t s = 0; s < wanted.size(); ++s) {
    CAPTURE(s);
    CHECK(found[s] == doctest::Approx(wanted[s]).epsilon(2e-3));
  }
}

using images = parallel<model::resnet_small<10>, input<dynamic, 1, 12, 12>>;
using texts = parallel<model::gpt<11, 9, 8, 4, 2>, input<8, 7>>;

}  // namespace

TEST_CASE("ascend: a ResNet trains as on the host") {
  check<images>(shape<4>{{6, 1, 12, 12}}, 10, momentum{.learning_rate = 0.01});
}
TEST_CASE("ascend: a Transformer trains as on the host") {
  check<texts>(shape<2>{{8, 7}}, 11, adamw{.learning_rate = 0.01});
}
