#pragma once

#include "../reference.hpp"

namespace tessera::test::columns_suite {

TEST_CASE_TEMPLATE(TESSERA_BACKEND "a bias is added to every row, and its gradient sums the rows", T,
                   TESSERA_ELEMENTS) {
  for (auto const& extents :
       {std::array<index_t, 2>{1, 1}, {37, 3}, {1000, 16}, {5, 200}, {0, 4}, {4, 0}, {131, 128}}) {
    const index_t rows = extents[0];
    const index_t columns = extents[1];
    CAPTURE(rows);
    CAPTURE(columns);
    auto y = random_values<T>(shape<2>{rows, columns}, 1);
    const auto bias = random_values<T>(shape<1>{columns}, 2);
    auto sums = unwritten<T>(shape<1>{columns});
    tensor<double, 1> sums_wanted(shape<1>{columns}, 0.0);
    auto y_wanted = as_double(y);
    for (index_t r = 0; r < rows; ++r) {
      for (index_t c = 0; c < columns; ++c) {
        sums_wanted(c) += static_cast<double>(y(r, c));
        y_wanted(r, c) += static_cast<double>(bias(c));
      }
    }
    suite_kernels kernels;
    kernels.sum_rows(y.read(), sums.view());
    kernels.add_bias(y.view(), bias.read());
    CHECK(worst(sums, sums_wanted) < tolerance<T>);
    CHECK(worst(y, y_wanted) < tolerance<T>);
  }
}

TEST_CASE(TESSERA_BACKEND "a long column of equal float values sums without drift") {
  const tensor<float, 2> ones(shape<2>{3'000'001, 1}, 0.1f);
  auto sum = unwritten<float>(shape<1>{1});
  suite_kernels kernels;
  kernels.sum_rows(ones.read(), sum.view());
  CHECK(sum(0) == doctest::Approx(3'000'001 * static_cast<double>(0.1f)).epsilon(1e-6));
}

}  // namespace tessera::test::columns_suite
