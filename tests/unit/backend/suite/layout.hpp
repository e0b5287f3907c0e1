#pragma once

#include "../reference.hpp"

namespace tessera::test::layout_suite {

TEST_CASE_TEMPLATE(TESSERA_BACKEND "flatten is channel-major, and unflatten its inverse", T, TESSERA_ELEMENTS) {
  for (auto const& extents :
       {shape<4>{3, 5, 4, 7}, {2, 33, 5, 4}, {4, 9, 1, 1}, {2, 1, 3, 5}, {0, 3, 2, 2}, {2, 0, 2, 2}, {2, 3, 0, 2}}) {
    CAPTURE(to_string(extents));
    const auto x = random_values<T>(extents, 1);
    const index_t features = extents[1] * extents[2] * extents[3];
    auto y = unwritten<T>(shape<2>{extents[0], features});
    auto back = unwritten<T>(extents);
    suite_kernels kernels;
    kernels.flatten(x.read(), y.view());
    kernels.unflatten(y.read(), back.view());
    tensor<double, 2> wanted(y.extents());
    for (index_t n = 0; n < extents[0]; ++n)
      for (index_t c = 0; c < extents[1]; ++c)
        for (index_t h = 0; h < extents[2]; ++h)
          for (index_t w = 0; w < extents[3]; ++w)
            wanted(n, (c * extents[2] + h) * extents[3] + w) = static_cast<double>(x(n, c, h, w));
    CHECK(worst(y, wanted) == 0);
    CHECK(worst(back, as_double(x)) == 0);
  }
}

}  // namespace tessera::test::layout_suite
