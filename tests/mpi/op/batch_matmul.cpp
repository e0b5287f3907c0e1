#include "on_ranks.hpp"

#include "support/finite_differences.hpp"

#include <tessera/op/batch_matmul.hpp>

namespace {

using namespace on_ranks;
using finite_differences::weighted_sum;
using on_ranks::index_t;

// No extent is a multiple of another, and some ranks of four have nothing of a batch or of heads.
constexpr index_t batch = 3, heads = 2, m = 5, n = 7, k = 6;

template <bool Transpose>
constexpr shape<2> matrix(index_t rows, index_t columns) {
  return Transpose ? shape<2>{{columns, rows}} : shape<2>{{rows, columns}};
}
template <int Rank>
constexpr shape<Rank> in_batch(shape<2> const& last) {
  if constexpr (Rank == 4)
    return {{batch, heads, last[0], last[1]}};
  else if constexpr (Rank == 3)
    return {{batch, last[0], last[1]}};
  else
    return last;
}

/// The products of a layout against those of one rank.
template <int RankA, int RankB, bool TransposeA, bool TransposeB, class LayoutA, class LayoutB, class Team>
void check(Team& team) {
  constexpr int rank = std::max(RankA, RankB);
  const auto a = worlds::values<double>(in_batch<RankA>(matrix<TransposeA>(m, k)), 1);
  const auto b = worlds::values<double>(in_batch<RankB>(matrix<TransposeB>(k, n)), 2);
  const auto dy = worlds::values<double>(in_batch<rank>({{m, n}}), 3);
  const auto whole_a = distribute<replicated>(team, a);
  const auto whole_b = distribute<replicated>(team, b);
  const auto whole_dy = distribute<replicated>(team, dy);
  const auto cut_a = distribute<LayoutA>(team, a);
  const auto cut_b = distribute<LayoutB>(team, b);
  const auto y = op::batch_matmul<TransposeA, TransposeB>(cut_a, cut_b);
  using y_type = std::remove_const_t<decltype(y)>;
  const auto cut_dy = distribute<layout_of<typename Team::mesh, dual(y_type::placements)>>(team, dy);
  const auto close = [](auto const& found, auto const& wanted) {
    CHECK(worlds::difference(gather(found), wanted.local()) < 1e-13);
  };
  close(y, op::batch_matmul<TransposeA, TransposeB>(whole_a, whole_b));
  close(op::batch_matmul_backward_a<TransposeA, TransposeB>(cut_dy, cut_a, cut_b),
        op::batch_matmul_backward_a<TransposeA, TransposeB>(whole_dy, whole_a, whole_b));
  close(op::batch_matmul_backward_b<TransposeA, TransposeB>(cut_dy, cut_a, cut_b),
        op::batch_matmul_backward_b<TransposeA, TransposeB>(whole_dy, whole_a, whole_b));
}

/// Batch, rows, columns, and what is summed over.
template <int N, int Rank, bool TransposeA, bool TransposeB, class Team>
void check_cuts(Team& team) {
  using axis = all<N>;
  constexpr int row = Rank - 2, column = Rank - 1;
  constexpr int m_of_a = TransposeA ? column : row, k_of_a = TransposeA ? row : column;
  constexpr int k_of_b = TransposeB ? column : row, n_of_b = TransposeB ? row : column;
  check<Rank, Rank, TransposeA, TransposeB, shard<0, axis>, shard<0, axis>>(team);
  check<Rank, Rank, TransposeA, TransposeB, shard<m_of_a, axis>, replicated>(team);
  check<Rank, Rank, TransposeA, TransposeB, replicated, shard<n_of_b, axis>>(team);
  check<Rank, Rank, TransposeA, TransposeB, shard<k_of_a, axis>, shard<k_of_b, axis>>(team);
  if constexpr (Rank == 4) check<4, 4, TransposeA, TransposeB, shard<1, axis>, shard<1, axis>>(team);
}

template <int RankA, int RankB, bool TransposeA, bool TransposeB>
void check_gradients() {
  alone team{serial_comm{}};
  constexpr int rank = std::max(RankA, RankB);
  const auto a = worlds::values<double>(in_batch<RankA>(matrix<TransposeA>(m, k)), 1);
  const auto b = worlds::values<double>(in_batch<RankB>(matrix<TransposeB>(k, n)), 2);
  const auto dy = worlds::values<double>(in_batch<rank>({{m, n}}), 3);
  const auto put = [&](auto const& t) { return distribute<replicated>(team, t); };
  const auto loss = [&](auto const& left, auto const& right) {
    return weighted_sum(op::batch_matmul<TransposeA, TransposeB>(put(left), put(right)), dy);
  };
  finite_differences::check([&](auto const& v) { return loss(v, b); }, a,
                            op::batch_matmul_backward_a<TransposeA, TransposeB>(put(dy), put(a), put(b)).local());
  finite_differences::check([&](auto const& v) { return loss(a, v); }, b,
                            op::batch_matmul_backward_b<TransposeA, TransposeB>(put(dy), put(a), put(b)).local());
}

}  // namespace

TEST_CASE("gradients of products of matrices in batches are those of finite differences") {
  check_gradients<3, 3, false, false>();
  check_gradients<3, 3, true, true>();
  check_gradients<4, 4, true, false>();
  check_gradients<4, 4, false, true>();
  check_gradients<3, 2, false, true>();
  check_gradients<3, 2, true, false>();
  check_gradients<2, 4, false, false>();
}

TEST_CASE("products in batches of rank 3 are the same however cut") {
  run([]<int N>(auto& team) {
    check_cuts<N, 3, false, false>(team);
    check_cuts<N, 3, true, true>(team);
  });
}

TEST_CASE("products in batches of rank 4 are the same however cut") {
  run([]<int N>(auto& team) {
    check_cuts<N, 4, false, true>(team);
    check_cuts<N, 4, true, false>(team);
  });
}

TEST_CASE("an operand without a batch serves the whole batch") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    check<3, 2, false, false, shard<0, axis>, replicated>(team);
    check<2, 3, false, true, shard<0, axis>, replicated>(team);
    check<4, 2, true, false, shard<1, axis>, replicated>(team);
    check<4, 2, false, false, shard<3, axis>, shard<0, axis>>(team);
  });
}

TEST_CASE("operands that do not fit are an error on every rank") {
  run([]<int N>(auto& team) {
    const auto put = [&](shape<3> const& s) { return distribute<replicated>(team, tensor<float, 3>(s, 1.0f)); };
    CHECK_THROWS_WITH_AS(op::batch_matmul(put({2, 3, 4}), put({2, 5, 3})),
                         "tessera: inner extent of b in batch_matmul is 5; wanted 4; check the extents of the operands",
                         error);
    CHECK_THROWS_WITH_AS(op::batch_matmul(put({2, 3, 4}), put({3, 4, 3})),
                         "tessera: batch extent of b in batch_matmul is 3; wanted 2; check the extents of the operands",
                         error);
    CHECK_THROWS_AS(op::batch_matmul_backward_a(put({2, 4, 3}), put({2, 3, 4}), put({2, 4, 3})), error);
  });
}
