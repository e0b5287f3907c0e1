#pragma once

#include <tessera/backend/attention.hpp>
#include <tessera/backend/eigen/map.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tessera::detail::eigen_kernels {

// Queries and keys of one head are taken tile by tile, so that no more scores exist than those of one tile. The softmax
// of a row is corrected as its keys pass by (M. Milakov and N. Gimelshein, 2018); backward makes the scores of a tile
// again from the logarithm of the row's sum of exponentials (T. Dao, D. Fu, S. Ermon, A. Rudra and C. Re, 2022).

inline constexpr index_t query_tile = 64;
inline constexpr index_t key_tile = 128;

/// A row-major matrix whose rows are `row` elements apart.
template <class T>
auto spaced(T* data, index_t rows, index_t columns, index_t row) {
  using matrix_type = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<like<T, matrix_type>, 0, Eigen::OuterStride<>>(data, rows, columns, Eigen::OuterStride<>(row));
}
/// The transpose of such a matrix, which has the extents `columns` x `rows`.
template <class T>
auto spaced_transposed(T* data, index_t rows, index_t columns, index_t row) {
  using matrix_type = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  return Eigen::Map<like<T, matrix_type>, 0, Eigen::OuterStride<>>(data, rows, columns, Eigen::OuterStride<>(row));
}

/// What is known of the softmax of each row of a tile after the keys so far: the largest score, and the sum of the
/// exponentials of all scores less that one.
template <class T>
struct softmax_state {
  std::array<T, static_cast<std::size_t>(query_tile)> largest;
  std::array<double, static_cast<std::size_t>(query_tile)> sum;
};

/// Turns the first `seen` of `count` scores of a row into exponentials and the others into zeros; `result` are the
/// weighted values so far.
template <class T>
void absorb_scores(T* scores, index_t seen, index_t count, T& largest, double& sum, T* result, index_t width) {
  const T most = seen == 0 ? largest : array(scores, seen).template maxCoeff<Eigen::PropagateNaN>();
  const T now = largest >= most ? largest : most;
  if (seen == 0 || now == -std::numeric_limits<T>::infinity()) {
    std::fill_n(scores, count, T{0});
    return;
  }
  auto row = array(scores, seen);
  row = (row - now).exp();
  if (now != largest) {
    const T factor = std::exp(largest - now);
    sum *= static_cast<double>(factor);
    array(result, width) *= factor;
    largest = now;
  }
  sum += static_cast<double>(row.sum());
  std::fill_n(scores + seen, count - seen, T{0});
}

/// out = softmax(scale * q k^T) v, and the logarithm of each row's sum of exponentials. `continued`: `out` and
/// `log_sum` hold the result over other keys, which these are added to.
template <class T>
void attention_forward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_rows<T> out,
                       block<double, 3> log_sum, attention_geometry const& g, bool continued, workspace& scratch) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  T* scores = scratch.get<T>(0, query_tile * key_tile);
  T* result = scratch.get<T>(1, query_tile * g.value_width);
  softmax_state<T> state;
  for (index_t head = 0; head < g.batch * g.heads; ++head) {
    const index_t b = head / g.heads;
    const index_t h = head % g.heads;
    double* logs = log_sum.data + head * g.queries;
    for (index_t first = 0; first < g.queries; first += query_tile) {
      const index_t rows = std::min(query_tile, g.queries - first);
      T* to = out.at(b, h) + first * out.row;
      std::fill_n(result, rows * g.value_width, T{0});
      for (index_t r = 0; r < rows; ++r) {
        const auto i = static_cast<std::size_t>(r);
        const bool begun = continued && !(logs[first + r] == lowest);
        state.largest[i] = begun ? static_cast<T>(logs[first + r]) : lowest;
        state.sum[i] = begun ? std::exp(logs[first + r] - static_cast<double>(state.largest[i])) : 0.0;
        if (begun)
          array(result + r * g.value_width, g.value_width) =
              array(to + r * out.row, g.value_width) * static_cast<T>(state.sum[i]);
      }
      const index_t keys = g.seen(first + rows - 1);
      for (index_t key = 0; key < keys; key += key_tile) {
        const index_t count = std::min(key_tile, keys - key);
        auto tile = spaced(scores, rows, count, count);
        tile.noalias() = static_cast<T>(g.scale) * spaced(q.at(b, h) + first * q.row, rows, g.width, q.row) *
                         spaced_transposed(k.at(b, h) + key * k.row, g.width, count, k.row);
        for (index_t r = 0; r < rows; ++r)
          absorb_scores(scores + r * count, std::clamp(g.seen(first + r) - key, index_t{0}, count), count,
                        state.largest[static_cast<std::size_t>(r)], state.sum[static_cast<std::size_t>(r)],
                        result + r * g.value_width, g.value_width);
        spaced(result, rows, g.value_width, g.value_width).noalias() +=
            tile * spaced(v.at(b, h) + key * v.row, count, g.value_width, v.row);
      }
      for (index_t r = 0; r < rows; ++r) {
        const double sum = state.sum[static_cast<std::size_t>(r)];
        auto row = array(to + r * out.row, g.value_width);
        if (sum == 0)
          row.setZero();
        else
          row = array(result + r * g.value_width, g.value_width) * static_cast<T>(1 / sum);
        logs[first + r] = static_cast<double>(state.largest[static_cast<std::size_t>(r)]) + std::log(sum);
      }
    }
  }
}

/// Copies head vectors of the extents [batch, heads, positions, width].
template <class T>
void copy_heads(head_operand<T> from, head_rows<T> to, shape<4> const& extents) {
  for (index_t b = 0; b < extents[0]; ++b)
    for (index_t h = 0; h < extents[1]; ++h)
      for (index_t n = 0; n < extents[2]; ++n)
        std::copy_n(from.at(b, h) + n * from.row, extents[3], to.at(b, h) + n * to.row);
}

/// delta = sum of out * dy over each row, what the gradient of every score of the row is lessened by.
template <class T>
void attention_delta(head_rows<T const> out, head_rows<T const> dy, block<double, 3> delta,
                     attention_geometry const& g) {
  for (index_t head = 0; head < g.batch * g.heads; ++head) {
    T const* a = out.at(head / g.heads, head % g.heads);
    T const* b = dy.at(head / g.heads, head % g.heads);
    for (index_t r = 0; r < g.queries; ++r)
      delta.data[head * g.queries + r] =
          static_cast<double>((array(a + r * out.row, g.value_width) * array(b + r * dy.row, g.value_width)).sum());
  }
}

/// Turns the first `seen` of `count` scores of a row into their probabilities and the gradients of the probabilities
/// into those of the scores; the others become zeros.
template <class T>
void differentiate_scores(T* scores, T* gradients, index_t seen, index_t count, double log_sum, double delta, T scale) {
  if (log_sum == -std::numeric_limits<double>::infinity()) seen = 0;
  // In two steps, because scores of 10^4 are known to 10^-3 only, and a logarithm rounded like them would put all of
  // the row's probabilities off by that.
  const T coarse = static_cast<T>(log_sum);
  const T fine = std::isfinite(log_sum) ? static_cast<T>(log_sum - static_cast<double>(coarse)) : T{0};
  auto p = array(scores, seen);
  auto d = array(gradients, seen);
  p = ((p - coarse) - fine).exp();
  d = p * (d - static_cast<T>(delta)) * scale;
  std::fill_n(scores + seen, count - seen, T{0});
  std::fill_n(gradients + seen, count - seen, T{0});
}

/// Adds the gradients over these keys to dq, dk and dv.
template <class T>
void attention_backward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_operand<T> dy,
                        block<double const, 3> log_sum, block<double const, 3> delta, head_rows<T> dq, head_rows<T> dk,
                        head_rows<T> dv, attention_geometry const& g, workspace& scratch) {
  T* scores = scratch.get<T>(0, query_tile * key_tile);
  T* gradients = scratch.get<T>(1, query_tile * key_tile);
  for (index_t head = 0; head < g.batch * g.heads; ++head) {
    const index_t b = head / g.heads;
    const index_t h = head % g.heads;
    const index_t at = head * g.queries;
    for (index_t first = 0; first < g.queries; first += query_tile) {
      const index_t rows = std::min(query_tile, g.queries - first);
      const index_t keys = g.seen(first + rows - 1);
      const auto query = spaced(q.at(b, h) + first * q.row, rows, g.width, q.row);
      const auto upstream = spaced(dy.at(b, h) + first * dy.row, rows, g.value_width, dy.row);
      for (index_t key = 0; key < keys; key += key_tile) {
        const index_t count = std::min(key_tile, keys - key);
        T const* from_k = k.at(b, h) + key * k.row;
        spaced(scores, rows, count, count).noalias() =
            static_cast<T>(g.scale) * query * spaced_transposed(from_k, g.width, count, k.row);
        spaced(gradients, rows, count, count).noalias() =
            upstream * spaced_transposed(v.at(b, h) + key * v.row, g.value_width, count, v.row);
        for (index_t r = 0; r < rows; ++r)
          differentiate_scores(scores + r * count, gradients + r * count,
                               std::clamp(g.seen(first + r) - key, index_t{0}, count), count,
                               log_sum.data[at + first + r], delta.data[at + first + r], static_cast<T>(g.scale));
        spaced(dv.at(b, h) + key * dv.row, count, g.value_width, dv.row).noalias() +=
            spaced_transposed(scores, count, rows, count) * upstream;
        spaced(dq.at(b, h) + first * dq.row, rows, g.width, dq.row).noalias() +=
            spaced(gradients, rows, count, count) * spaced(from_k, count, g.width, k.row);
        spaced(dk.at(b, h) + key * dk.row, count, g.width, dk.row).noalias() +=
            spaced_transposed(gradients, count, rows, count) * query;
      }
    }
  }
}

}  // namespace tessera::detail::eigen_kernels
