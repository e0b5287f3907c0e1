#include <doctest/doctest.h>
#include <tessera/backend/geometry.hpp>

namespace tessera::test {

TEST_CASE("output extents of convolutions") {
  constexpr conv2d_geometry g{{3, 7}, {2, 1}, {1, 3}, {1, 2}, {1, 2}, 1};
  static_assert(g.output_extent(0, 28) == 14);
  static_assert(g.output_extent(1, 28) == 21);
  CHECK(g.output_extent(0, 0) == 0);
  CHECK(g.output_extent(0, 1) == 1);
  CHECK(g.output_extent(1, 7) == 0);
  CHECK(g.output_extent(1, 8) == 1);
}

TEST_CASE("output extents of pooling") {
  pool2d_geometry g{{3, 2}, {2, 2}, {0, 1}, {0, 1}};
  CHECK(g.output_extent(0, 8) == 3);
  CHECK(g.output_extent(1, 7) == 4);
  g.ceil_mode = true;
  CHECK(g.output_extent(0, 8) == 4);
  // The fifth window would begin beyond the input and its left padding.
  CHECK(g.output_extent(1, 6) == 4);
  CHECK(g.output_extent(1, 7) == 5 - 1);
  // The only window overhangs.
  CHECK(g.output_extent(0, 2) == 1);
  CHECK(g.output_extent(0, 0) == 0);
  CHECK(g.output_extent(0, 1) == 0);
}

}  // namespace tessera::test
