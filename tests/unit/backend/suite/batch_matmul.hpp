#pragma once

#include "../reference.hpp"

namespace tessera::test::batch_matmul_suite {
namespace {

struct problem {
  index_t outer, inner, m, n, k;
  bool shared_a, shared_b, summed;
};

/// Extents of an operand of `rows` x `columns` matrices.
shape<4> batch(problem const& p, bool alone, index_t rows, index_t columns) {
  return {alone ? 1 : p.outer, alone ? 1 : p.inner, rows, columns};
}

template <class T>
void check(problem const& p, bool transpose_a, bool transpose_b) {
  const auto a = random_values<T>(batch(p, p.shared_a, transpose_a ? p.k : p.m, transpose_a ? p.m : p.k), 1);
  const auto b = random_values<T>(batch(p, p.shared_b, transpose_b ? p.n : p.k, transpose_b ? p.k : p.n), 2);
  auto y = unwritten<T>(batch(p, p.summed, p.m, p.n));
  tensor<double, 4> wanted(y.extents(), 0.0);
  for (index_t o = 0; o < p.outer; ++o)
    for (index_t i = 0; i < p.inner; ++i)
      for (index_t r = 0; r < p.m; ++r)
        for (index_t c = 0; c < p.n; ++c)
          for (index_t k = 0; k < p.k; ++k) {
            const T left = a(p.shared_a ? 0 : o, p.shared_a ? 0 : i, transpose_a ? k : r, transpose_a ? r : k);
            const T right = b(p.shared_b ? 0 : o, p.shared_b ? 0 : i, transpose_b ? c : k, transpose_b ? k : c);
            wanted(p.summed ? 0 : o, p.summed ? 0 : i, r, c) += static_cast<double>(left) * static_cast<double>(right);
          }
  suite_kernels kernels;
  kernels.batch_matmul(a.read(), transpose_a, b.read(), transpose_b, y.view());
  CHECK(worst(y, wanted) < 20 * tolerance<T>);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "products of many matrices equal those of each", T, TESSERA_ELEMENTS) {
  // One or several matrices side by side, one operand for all, and sums over the batch.
  const problem problems[] = {{3, 1, 4, 5, 6, false, false, false},
                              {3, 7, 4, 5, 6, false, false, false},
                              {1, 4, 3, 2, 17, false, false, false},
                              {3, 1, 4, 5, 6, false, true, false},
                              {3, 1, 4, 5, 6, true, false, false},
                              {2, 3, 4, 5, 6, false, true, false},
                              {2, 3, 4, 5, 6, true, false, false},
                              {3, 1, 4, 5, 6, false, false, true},
                              {2, 3, 4, 5, 6, false, false, true},
                              {2, 16, 20, 24, 8, false, false, false},
                              {5, 1, 1, 1, 1, false, false, true},
                              // Without a batch, without rows, and without anything to sum.
                              {0, 1, 4, 5, 6, false, false, false},
                              {0, 3, 4, 5, 6, false, true, false},
                              {0, 2, 4, 5, 6, false, false, true},
                              {2, 3, 0, 5, 6, false, false, false},
                              {2, 3, 4, 5, 0, false, false, false},
                              {2, 0, 4, 5, 6, false, false, true},
                              {2, 1, 4, 5, 0, false, false, true}};
  for (problem const& p : problems)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        CAPTURE(&p - problems);
        CAPTURE(transpose_a);
        CAPTURE(transpose_b);
        check<T>(p, transpose_a, transpose_b);
      }
}

}  // namespace tessera::test::batch_matmul_suite
