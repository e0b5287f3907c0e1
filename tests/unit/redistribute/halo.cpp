#include "support/worlds.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/redistribute/halo.hpp>

#include <utility>

namespace {

using namespace tessera;

struct one : axis<1> {};
using alone = team<mesh<one>, recording<serial_comm>>;

TEST_CASE("one rank: nothing is sent, rows that no window reads are left out, and backward gives them zero") {
  alone team{recording<serial_comm>(serial_comm{})};
  const auto image = worlds::values<float>(shape<4>{{2, 3, 6, 5}}, 1);
  const auto x = distribute<shard<2, one>>(team, image);
  // Windows over rows 0 to 2 and 3 to 5; over columns 1 before the image to 2, and 1 to 4.
  const std::array<halo_window, 2> windows{{{3, 3}, {2, 2, 1, 0, 3}}};
  const auto padded = exchange_halo<2, 3>(x, windows);
  CHECK(padded.where[2] == interval{0, 6});
  CHECK(padded.where[3] == interval{0, 5});
  CHECK(padded.padding_before == std::array<tessera::index_t, 2>{0, 1});
  CHECK(padded.padding_after == std::array<tessera::index_t, 2>{0, 0});
  CHECK(std::as_const(padded.block).data() == x.local().data());

  // One window alone: rows 1 to 5 are not read.
  const std::array<halo_window, 1> first{{{1, 6}}};
  auto exchange = start_halo<2>(x, first);
  CHECK(exchange.test());
  CHECK(exchange.plan().interior() == exchange.plan().outputs());
  const auto row = exchange.finish().block;
  REQUIRE(row.extents() == shape<4>{{2, 3, 1, 5}});
  CHECK(row(1, 2, 0, 4) == image(1, 2, 0, 4));
  using X = sharded<float, 4, shard<2, one>, alone>;
  const X dx = exchange_halo_backward<X, 2>(team, row, image.extents(), first);
  CHECK(dx.local()(1, 2, 0, 4) == image(1, 2, 0, 4));
  for (int r = 1; r < 6; ++r) CHECK(dx.local()(1, 2, r, 4) == 0);
  CHECK(team.group(0).calls().empty());
}

TEST_CASE("a mesh of no axes") {
  worlds::serial_team<mesh<>> team{serial_comm{}};
  const auto x = distribute<replicated>(team, worlds::values<double>(shape<1>{{5}}, 1));
  const auto padded = exchange_halo<0>(x, {{{3, 1, 1, 1, 1}}});
  CHECK(padded.block.size() == 5);
  CHECK(padded.padding_after[0] == 1);
}

}  // namespace
