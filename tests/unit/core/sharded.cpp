#include "support/worlds.hpp"

#include <tessera/core/sharded.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

struct one : axis<1> {};
using alone = worlds::serial_team<mesh<one>>;

TEST_CASE("errors say what was found, what was wanted and what to do") {
  CHECK(std::string(error("one thing", "another", "change it").what()) ==
        "tessera: one thing; wanted another; change it");
}

TEST_CASE("C05: a block that the split rule does not give this rank is refused") {
  alone team{serial_comm{}};
  using matrix = sharded<float, 2, row<one>, alone>;
  CHECK_THROWS_WITH_AS(matrix(team, {{5, 2}}, matrix::local_type(shape<2>{{1, 2}})),
                       "tessera: rank 0 has a block of [1, 2] of a tensor of [5, 2]; wanted [5, 2] (floor/ceil blocks, "
                       "larger ones first); cut the tensor with tessera::distribute, or pass the extents that "
                       "tessera::local_box gives",
                       error);
  CHECK(matrix(team, {{5, 2}}, matrix::local_type(shape<2>{{5, 2}})).extents() == shape<2>{{5, 2}});
}

}  // namespace

TEST_CASE("a tensor that was moved from has no memory, so it does not see another's") {
  tessera::tensor<float, 2> x({2, 2}, 1.0f);
  const tessera::tensor<float, 2> y = std::move(x);
  CHECK(x.data() == nullptr);
  CHECK(y(1, 1) == 1.0f);
  const tessera::tensor<float, 2> z({2, 2}, 3.0f);
  x = z;
  CHECK(x(0, 0) == 3.0f);
}
