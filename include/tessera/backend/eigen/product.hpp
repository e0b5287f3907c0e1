#pragma once

#include <tessera/backend/eigen/map.hpp>
#include <tessera/backend/progress.hpp>

#include <algorithm>

namespace tessera::detail::eigen_kernels {

/// Operations of a product between two looks at the progress hook: 0.1 to 0.2 ms of a core with vectors.
inline constexpr index_t operations_between_progress = index_t{1} << 24;

/// sum += alpha * left * right for factors in the storage orders given and a column-major sum: Eigen's blocks and
/// kernels, in Eigen's order, with a look at the progress hook after each piece of work.
template <class T, int LeftOrder, int RightOrder>
void add_blocks(index_t m, index_t n, index_t k, T const* left_data, index_t left_stride, T const* right_data,
                index_t right_stride, T* sum_data, index_t sum_stride, T alpha) {
  using namespace Eigen::internal;
  using index = Eigen::Index;
  using traits = gebp_traits<T, T>;
  using left_map = const_blas_data_mapper<T, index, LeftOrder>;
  using right_map = const_blas_data_mapper<T, index, RightOrder>;
  using sum_map = blas_data_mapper<T, index, Eigen::ColMajor>;
  const left_map left(left_data, left_stride);
  const right_map right(right_data, right_stride);
  const sum_map sum(sum_data, sum_stride);
  gemm_pack_lhs<T, index, left_map, traits::mr, traits::LhsProgress, typename traits::LhsPacket4Packing, LeftOrder>
      pack_left;
  gemm_pack_rhs<T, index, right_map, traits::nr, RightOrder> pack_right;
  gebp_kernel<T, T, index, sum_map, traits::mr, traits::nr, false, false> multiply;

  gemm_blocking_space<Eigen::ColMajor, T, T, Eigen::Dynamic, Eigen::Dynamic, Eigen::Dynamic> blocking(m, n, k, 1, true);
  blocking.allocateAll();
  T* const block_left = blocking.blockA();
  T* const block_right = blocking.blockB();
  const index_t kc = blocking.kc();
  const index_t mc = std::min<index_t>(m, blocking.mc());
  const index_t nc = std::min<index_t>(n, blocking.nc());
  const bool pack_right_once = mc != m && kc == k && nc == n;
  for (index_t i = 0; i < m; i += mc) {
    const index_t rows = std::min(mc, m - i);
    for (index_t p = 0; p < k; p += kc) {
      const index_t depth = std::min(kc, k - p);
      pack_left(block_left, left.getSubMapper(i, p), depth, rows);
      // Packed rows lie together by `mr`, packed columns by `nr`.
      const auto whole = [&](index_t across, index_t by) {
        return std::max<index_t>(operations_between_progress / (2 * depth * across) / by, 1) * by;
      };
      const index_t columns_step = whole(traits::mr, traits::nr);
      for (index_t j = 0; j < n; j += nc) {
        const index_t columns = std::min(nc, n - j);
        if (!pack_right_once || i == 0) pack_right(block_right, right.getSubMapper(p, j), depth, columns);
        for (index_t c = 0; c < columns; c += columns_step) {
          const index_t columns_here = std::min(columns_step, columns - c);
          const index_t rows_step = whole(columns_here, traits::mr);
          for (index_t r = 0; r < rows; r += rows_step) {
            multiply(sum.getSubMapper(i + r, j + c), block_left + r * depth, block_right + c * depth,
                     std::min(rows_step, rows - r), depth, columns_here, alpha);
            make_progress();
          }
        }
      }
    }
  }
}

/// sum += alpha * left * right on the calling thread, whatever number of threads Eigen may use elsewhere in the
/// program. Maps of matrices; `sum` is row-major.
template <class T, class Left, class Right, class Sum>
void add_product(T alpha, Left const& left, Right const& right, Sum sum) {
  using namespace Eigen;
  static_assert(Sum::IsRowMajor);
  const index_t m = sum.rows();
  const index_t n = sum.cols();
  const index_t k = left.cols();
  if (m == 0 || n == 0 || k == 0) return;
  // Eigen has other code for these, which never starts threads.
  if (m == 1 || n == 1 || m + n + k < 20) {
    sum.noalias() += alpha * left * right;
    return;
  }
  // The transposed product has a column-major sum.
  add_blocks<T, Right::IsRowMajor ? ColMajor : RowMajor, Left::IsRowMajor ? ColMajor : RowMajor>(
      n, m, k, right.data(), right.outerStride(), left.data(), left.outerStride(), sum.data(), sum.outerStride(),
      alpha);
}

}  // namespace tessera::detail::eigen_kernels
