#pragma once

#include <tessera/op/rules.hpp>

namespace tessera {

namespace detail {

/// Index rules of products of matrices with leading batch dimensions: `A`, `B` and `Out` say how many of the letters
/// `b` and `h` each has.
constexpr index_rules batch_matmul_rules(int batch_a, bool transpose_a, int batch_b, bool transpose_b, int batch_out) {
  index_rules r("", {{'m', "rows"}, {'n', "output"}, {'k', "input"}}, linearity::each);
  const auto write = [&](std::string_view text) {
    for (const char c : text) r.text[r.length++] = c;
  };
  constexpr std::string_view batch = "bh";
  write(batch.substr(0, static_cast<std::size_t>(batch_a)));
  write(transpose_a ? "km," : "mk,");
  write(batch.substr(0, static_cast<std::size_t>(batch_b)));
  write(transpose_b ? "nk->" : "kn->");
  write(batch.substr(0, static_cast<std::size_t>(batch_out)));
  write("mn");
  r.cuts[r.count++] = {'b', "batch"};
  if (batch_a > 1 || batch_b > 1) r.cuts[r.count++] = {'h', "heads"};
  return r;
}
template <int BatchA, bool TransposeA, int BatchB, bool TransposeB, int BatchOut>
struct batch_matmul_op {
  static constexpr index_rules rules = batch_matmul_rules(BatchA, TransposeA, BatchB, TransposeB, BatchOut);
};

/// A block with two batch dimensions, of extent 1 where it lacks them.
template <storage_order Order, class T, int Rank, storage_order Own>
constexpr block<T, 4, Order> with_two_batch_dims(block<T, Rank, Own> b) {
  if constexpr (Rank == 4)
    return b;
  else if constexpr (Rank == 3)
    return {b.data, {b.extents[0], 1, b.extents[1], b.extents[2]}};
  else
    return {b.data, {1, 1, b.extents[0], b.extents[1]}};
}

template <int RankA, int RankB>
constexpr void require_batches() {
  static_assert(RankA >= 2 && RankA <= 4 && RankB >= 2 && RankB <= 4 && (RankA > 2 || RankB > 2) &&
                    (RankA == RankB || RankA == 2 || RankB == 2),
                "tessera: batch_matmul takes matrices with one or two leading batch dimensions, the same number for "
                "both operands, or one operand without any that is used for all; reshape them first");
}

/// The product of each matrix of `a` and `b`, summed over the batch where the result has no batch dimensions.
template <int Rank, bool TransposeA, bool TransposeB, sharded_tensor A, sharded_tensor B>
auto multiply_batches(A const& a, B const& b) {
  require_batches<A::rank, B::rank>();
  require_extent(b.extent(B::rank - (TransposeB ? 1 : 2)), a.extent(A::rank - (TransposeA ? 2 : 1)),
                 "inner extent of b in batch_matmul");
  if constexpr (A::rank > 2 && B::rank > 2)
    for (int d = 0; d < A::rank - 2; ++d) require_extent(b.extent(d), a.extent(d), "batch extent of b in batch_matmul");
  shape<Rank> extents;
  for (int d = 0; d < Rank - 2; ++d) extents[d] = A::rank > 2 ? a.extent(d) : b.extent(d);
  extents[Rank - 2] = a.extent(A::rank - (TransposeA ? 1 : 2));
  extents[Rank - 1] = b.extent(B::rank - (TransposeB ? 2 : 1));
  tessera::result_of<batch_matmul_op<A::rank - 2, TransposeA, B::rank - 2, TransposeB, Rank - 2>, Rank, A, B> y(
      a.where(), extents);
  constexpr storage_order order = A::context_type::backend::order;
  a.where().kernels().batch_matmul(with_two_batch_dims<order>(a.read()), TransposeA,
                                   with_two_batch_dims<order>(b.read()), TransposeB,
                                   with_two_batch_dims<order>(y.write()));
  return y;
}

}  // namespace detail

namespace op {

/// The product of each matrix of `a` [..., m, k] and `b` [..., k, n], transposed first where asked, with one or two
/// batch dimensions in front. An operand of rank 2 is used for the whole batch.
///
/// Splits: batch dimensions, m of a, n of b, or k of both (the result is then a partial sum), on any axes together. One
/// operand may be a partial sum. No collectives.
template <bool TransposeA = false, bool TransposeB = false, sharded_tensor A, sharded_tensor B>
auto batch_matmul(A const& a, B const& b) {
  return detail::multiply_batches<std::max(A::rank, B::rank), TransposeA, TransposeB>(a, b);
}

/// Gradient of `batch_matmul` with respect to a. Partial along axes that cut n; summed over the batch where a has no
/// batch dimensions, so partial along axes that cut the batch too.
template <bool TransposeA = false, bool TransposeB = false, sharded_tensor A, sharded_tensor B, sharded_tensor Dy>
auto batch_matmul_backward_a(Dy const& dy, A const& a, B const& b) {
  auto da = [&] {
    if constexpr (TransposeA)
      return detail::multiply_batches<A::rank, TransposeB, true>(b, dy);
    else
      return detail::multiply_batches<A::rank, false, !TransposeB>(dy, b);
  }();
  detail::require_shape(da.extents(), a.extents(), "the gradient of a in batch_matmul");
  return da;
}

/// Gradient of `batch_matmul` with respect to b. Partial along axes that cut m; summed over the batch where b has no
/// batch dimensions, so partial along axes that cut the batch too.
template <bool TransposeA = false, bool TransposeB = false, sharded_tensor A, sharded_tensor B, sharded_tensor Dy>
auto batch_matmul_backward_b(Dy const& dy, A const& a, B const& b) {
  auto db = [&] {
    if constexpr (TransposeB)
      return detail::multiply_batches<B::rank, true, TransposeA>(dy, a);
    else
      return detail::multiply_batches<B::rank, !TransposeA, false>(a, dy);
  }();
  detail::require_shape(db.extents(), b.extents(), "the gradient of b in batch_matmul");
  return db;
}

}  // namespace op

}  // namespace tessera
