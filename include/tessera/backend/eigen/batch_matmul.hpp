#pragma once

#include <tessera/backend/eigen/layout.hpp>
#include <tessera/backend/eigen/matmul.hpp>

#include <algorithm>

namespace tessera::detail::eigen_kernels {

/// The matrices [rows, columns] of a block [outer, inner, rows, columns], whose inner numbers lie side by side in
/// memory.
template <class T>
struct matrix_batch {
  block<T, 4> whole;

  index_t outer() const { return whole.extents[0]; }
  index_t inner() const { return whole.extents[1]; }
  index_t matrix_size() const { return whole.extents[2] * whole.extents[3]; }
  T* outer_part(index_t o) const { return whole.data + (outer() == 1 ? 0 : o * inner() * matrix_size()); }
  shape<2> matrix() const { return {{whole.extents[2], whole.extents[3]}}; }
};

/// out = op(a) op(b) for each matrix of blocks [outer, inner, rows, columns]; op transposes where the flag says so. An
/// operand whose outer and inner extents are 1 is used for all of them; an output with such extents gets the sum.
template <class T>
void batch_matmul(operand<T, 4> a, bool transpose_a, operand<T, 4> b, bool transpose_b, block<T, 4> out,
                  workspace& scratch) {
  const matrix_batch<T const> left{a};
  const matrix_batch<T const> right{b};
  const matrix_batch<T> result{out};
  const index_t outer = left.outer() == 1 ? right.outer() : left.outer();
  const index_t inner = left.inner() == 1 ? right.inner() : left.inner();
  std::fill(out.begin(), out.end(), T{0});
  if (out.size() == 0 || outer == 0 || inner == 0) return;

  if (inner == 1 && !transpose_a && right.outer() == 1 && result.outer() == outer) {
    // One matrix for all rows of all matrices.
    matmul<T>({a.data, {outer * a.extents[2], a.extents[3]}}, false, {b.data, right.matrix()}, transpose_b,
              {out.data, {outer * out.extents[2], out.extents[3]}}, true, scratch);
    return;
  }
  if (inner == 1 && transpose_a && !transpose_b && result.outer() == 1 && left.outer() == right.outer()) {
    // The sum of the products is a sum over the rows of all matrices.
    matmul<T>({a.data, {outer * a.extents[2], a.extents[3]}}, true, {b.data, {outer * b.extents[2], b.extents[3]}},
              false, {out.data, result.matrix()}, true, scratch);
    return;
  }

  const index_t products = out.extents[2] * out.extents[3] * ((a.extents[transpose_a ? 2 : 3] + 15) / 16);
  const bool side_by_side = result.inner() > 1;
  const auto multiply = [&](index_t begin, index_t end, workspace& own) {
    // Matrices that lie side by side are put one behind the other first, for one outer number at a time.
    const auto packed = [&](matrix_batch<T const> const& from, index_t o, int slot) -> T const* {
      if (from.inner() == 1) return from.outer_part(o);
      T* const to = own.get<T>(slot, from.inner() * from.matrix_size());
      if (o == begin || from.outer() > 1) transpose_each(from.outer_part(o), 1, from.matrix_size(), from.inner(), to);
      return to;
    };
    for (index_t o = begin; o < end; ++o) {
      T const* const p = packed(left, o, 0);
      T const* const q = packed(right, o, 1);
      T* const y = side_by_side ? own.get<T>(2, inner * result.matrix_size()) : result.outer_part(o);
      const auto one = [&](index_t first, index_t last, workspace& of_part) {
        for (index_t i = first; i < last; ++i)
          matmul<T>({p + (left.inner() == 1 ? 0 : i * left.matrix_size()), left.matrix()}, transpose_a,
                    {q + (right.inner() == 1 ? 0 : i * right.matrix_size()), right.matrix()}, transpose_b,
                    {y + (side_by_side ? i * result.matrix_size() : 0), result.matrix()}, !side_by_side, of_part);
      };
      if (side_by_side)
        own.split(inner, products, one);
      else
        one(0, inner, own);
      if (side_by_side) transpose_each<T>(y, 1, inner, result.matrix_size(), result.outer_part(o));
    }
  };
  // An output that is the sum over the outer numbers is made by one thread after the other.
  if (result.outer() == outer)
    scratch.split(outer, inner * products, multiply);
  else
    multiply(0, outer, scratch);
}

}  // namespace tessera::detail::eigen_kernels
