#include <tessera/core/xtensor.hpp>

#include <doctest/doctest.h>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

namespace ts = tessera;

TEST_CASE("a view of images is in logical order whatever the storage order") {
  ts::tensor<float, 4> images({2, 3, 4, 5});
  float next = 0;
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 3; ++c)
      for (int h = 0; h < 4; ++h)
        for (int w = 0; w < 5; ++w) images(n, c, h, w) = next++;
  const auto v = ts::view(images);
  CHECK(v.shape()[1] == 3);
  float logical = 0;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t h = 0; h < 4; ++h)
        for (std::size_t w = 0; w < 5; ++w) CHECK(v(n, c, h, w) == logical++);
  // Stored channels last all the same.
  CHECK(images.data()[1] == images(0, 1, 0, 0));
}

TEST_CASE("writing through a view writes the block") {
  ts::tensor<double, 2> m({3, 2}, 0.0);
  auto v = ts::view(m);
  xt::view(v, 1, xt::all()) = 7.0;
  CHECK(m(1, 0) == 7.0);
  CHECK(m(1, 1) == 7.0);
  CHECK(m(2, 0) == 0.0);
}

TEST_CASE("an xtensor expression becomes a tensor") {
  const xt::xtensor<float, 2> a{{1, 2, 3}, {4, 5, 6}};
  const auto t = ts::to_tensor<float, 2>(a + 1.0f);
  CHECK(t.extents() == ts::shape<2>{{2, 3}});
  CHECK(t(1, 2) == 7.0f);
}
