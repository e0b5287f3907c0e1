#pragma once

#include "../reference.hpp"

namespace tessera::test::matmul_suite {

TEST_CASE_TEMPLATE(TESSERA_BACKEND "a matrix product equals the sum of products, whichever operand is transposed", T,
                   TESSERA_ELEMENTS) {
  for (auto const& extents :
       {std::array<index_t, 3>{7, 5, 9}, {1, 33, 17}, {40, 1, 31}, {64, 48, 80}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}}) {
    const index_t m = extents[0];
    const index_t n = extents[1];
    const index_t k = extents[2];
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const bool accumulate : {false, true}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          const auto a = random_values<T>(transpose_a ? shape<2>{k, m} : shape<2>{m, k}, 1);
          const auto b = random_values<T>(transpose_b ? shape<2>{n, k} : shape<2>{k, n}, 2);
          auto out = random_values<T>(shape<2>{m, n}, 3);
          auto wanted = accumulate ? as_double(out) : tensor<double, 2>(shape<2>{m, n}, 0.0);
          for (index_t i = 0; i < m; ++i)
            for (index_t j = 0; j < n; ++j)
              for (index_t l = 0; l < k; ++l)
                wanted(i, j) += static_cast<double>(transpose_a ? a(l, i) : a(i, l)) *
                                static_cast<double>(transpose_b ? b(j, l) : b(l, j));
          suite_kernels kernels;
          kernels.matmul(a.read(), transpose_a, b.read(), transpose_b, out.view(), accumulate);
          CHECK(worst(out, wanted) < tolerance<T>);
        }
      }
    }
  }
}

}  // namespace tessera::test::matmul_suite
