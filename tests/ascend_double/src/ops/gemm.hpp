#pragma once

#include <cstdint>

namespace ascend_double {

/// A row-major matrix, or the transposed of one.
struct matrix {
  float const* values;
  bool transposed = false;
};

/// to = a b, or to += a b, of [m, k] and [k, n].
void multiply(matrix a, matrix b, std::int64_t m, std::int64_t k, std::int64_t n, float* to, bool adds = false);

}  // namespace ascend_double
