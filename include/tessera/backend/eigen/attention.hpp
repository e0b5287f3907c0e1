#pragma once

#include <tessera/backend/attention.hpp>
#include <tessera/backend/eigen/product.hpp>

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

/// What is known of the softmax of each row of a tile after the keys so far: the largest score, and the sum of the
/// exponentials of all scores less that one.
template <class T>
struct softmax_state {
  std::array<T, static_cast<std::size_t>(query_tile)> largest;
  std::array<double, static_cast<std::size_t>(query_tile)> sum;
};

/// What the queries of a tile see of its keys: by position, and by a mask that is added to the scores.
template <class T>
struct tile_view {
  static constexpr T hidden = -std::numeric_limits<T>::infinity();

  attention_geometry const& g;
  index_t first_query;
  index_t first_key;
  index_t rows;
  index_t count;         ///< of keys
  T const* mask;         ///< of the first query and the first key; null for none
  index_t mask_row = 0;  ///< from one query's to the next

  tile_view(attention_geometry const& geometry, head_rows<T const> of_head, index_t query, index_t key, index_t rows_,
            index_t count_)
      : g(geometry),
        first_query(query),
        first_key(key),
        rows(rows_),
        count(count_),
        mask(of_head.data == nullptr ? nullptr : of_head.data + query * of_head.row + g.first_key + key),
        mask_row(of_head.row) {}

  index_t seen(index_t r) const { return std::clamp(g.seen(first_query + r) - first_key, index_t{0}, count); }
  bool sees_all() const { return mask == nullptr && seen(0) == count; }
  bool sees(index_t r, index_t key) const {
    return key < seen(r) && (mask == nullptr || mask[r * mask_row + key] != hidden);
  }

  /// Adds the mask of a row; what it hides is so whatever the score was.
  void add_mask(T* scores, index_t r) const {
    if (mask == nullptr) return;
    auto row = array(scores, seen(r));
    const auto added = array(mask + r * mask_row, seen(r));
    row = (added == hidden).select(added, row + added);
  }
  void clear_hidden(T* values, index_t r) const {
    std::fill_n(values + seen(r), count - seen(r), T{0});
    if (mask == nullptr) return;
    auto row = array(values, seen(r));
    row = (array(mask + r * mask_row, seen(r)) == hidden).select(T{0}, row);
  }
};

/// Whether no vector holds an infinity or NaN, which 0 times it would not cancel.
template <class T>
bool all_finite(T const* vectors, index_t count, index_t width, index_t row) {
  T sum{0};
  for (index_t i = 0; i < count; ++i) sum += (array(vectors + i * row, width) * T{0}).sum();
  return sum == T{0};
}

/// to[query] += sum over keys of weight * from[key], from the weights [queries, keys] of a tile, which are 0 for keys
/// that a query does not see: these add nothing, whatever they hold.
template <class T>
void add_by_query(tile_view<T> const& tile, T const* weights, T const* from, index_t from_row, T* to, index_t to_row,
                  index_t width) {
  if (tile.sees_all() || all_finite(from, tile.count, width, from_row)) {
    add_product(T{1}, spaced(weights, tile.rows, tile.count, tile.count), spaced(from, tile.count, width, from_row),
                spaced(to, tile.rows, width, to_row));
    return;
  }
  for (index_t r = 0; r < tile.rows; ++r)
    for (index_t key = 0; key < tile.count; ++key)
      if (tile.sees(r, key))
        array(to + r * to_row, width) += weights[r * tile.count + key] * array(from + key * from_row, width);
}
/// The same the other way round: to[key] += sum over queries of weight * from[query].
template <class T>
void add_by_key(tile_view<T> const& tile, T const* weights, T const* from, index_t from_row, T* to, index_t to_row,
                index_t width) {
  if (tile.sees_all() || all_finite(from, tile.rows, width, from_row)) {
    add_product(T{1}, spaced_transposed(weights, tile.count, tile.rows, tile.count),
                spaced(from, tile.rows, width, from_row), spaced(to, tile.count, width, to_row));
    return;
  }
  for (index_t r = 0; r < tile.rows; ++r)
    for (index_t key = 0; key < tile.count; ++key)
      if (tile.sees(r, key))
        array(to + key * to_row, width) += weights[r * tile.count + key] * array(from + r * from_row, width);
}

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

/// out = softmax(scale * q k^T + mask) v, and the logarithm of each row's sum of exponentials. `continued`: `out` and
/// `log_sum` hold the result over other keys, which these are added to. Keys that a query does not see add nothing,
/// whatever they hold.
template <class T>
void attention_forward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_rows<T> out,
                       block<double, 3> log_sum, attention_geometry const& g, bool continued, head_operand<T> mask,
                       workspace& scratch) {
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const index_t tiles = (g.queries + query_tile - 1) / query_tile;
  const index_t cost = query_tile * g.keys * (4 + (g.width + g.value_width) / 16);
  scratch.split(g.batch * g.heads * tiles, cost, [&](index_t begin, index_t end, workspace& own) {
    T* scores = own.get<T>(0, query_tile * key_tile);
    T* result = own.get<T>(1, query_tile * g.value_width);
    softmax_state<T> state;
    for (index_t item = begin; item < end; ++item) {
      const index_t head = item / tiles;
      const index_t b = head / g.heads;
      const index_t h = head % g.heads;
      double* logs = log_sum.data + head * g.queries;
      const index_t first = item % tiles * query_tile;
      const index_t rows = std::min(query_tile, g.queries - first);
      T* to = out.at(b, h) + first * out.row;
      std::fill_n(result, rows * g.value_width, T{0});
      for (index_t r = 0; r < rows; ++r) {
        const auto i = static_cast<std::size_t>(r);
        const bool begun = continued && !(logs[first + r] == lowest);
        state.largest[i] = begun ? static_cast<T>(logs[first + r]) : lowest;
        state.sum[i] = begun ? std::exp(logs[first + r] - static_cast<double>(state.largest[i])) : 0.0;
        // Where nothing is begun, these are 0, or the NaN that keys of the score -infinity give to infinite values.
        if (continued)
          array(result + r * g.value_width, g.value_width) =
              array(to + r * out.row, g.value_width) * static_cast<T>(state.sum[i]);
      }
      const index_t keys = g.seen(first + rows - 1);
      for (index_t key = 0; key < keys; key += key_tile) {
        const index_t count = std::min(key_tile, keys - key);
        const tile_view<T> tile(g, mask.one(b, h), first, key, rows, count);
        std::fill_n(scores, rows * count, T{0});
        add_product(static_cast<T>(g.scale), spaced(q.at(b, h) + first * q.row, rows, g.width, q.row),
                    spaced_transposed(k.at(b, h) + key * k.row, g.width, count, k.row),
                    spaced(scores, rows, count, count));
        for (index_t r = 0; r < rows; ++r) {
          tile.add_mask(scores + r * count, r);
          absorb_scores(scores + r * count, tile.seen(r), count, state.largest[static_cast<std::size_t>(r)],
                        state.sum[static_cast<std::size_t>(r)], result + r * g.value_width, g.value_width);
        }
        add_by_query(tile, scores, v.at(b, h) + key * v.row, v.row, result, g.value_width, g.value_width);
      }
      for (index_t r = 0; r < rows; ++r) {
        const double sum = state.sum[static_cast<std::size_t>(r)];
        auto row = array(to + r * out.row, g.value_width);
        // Without a sum this is 0 times the values that were seen.
        row = array(result + r * g.value_width, g.value_width) * static_cast<T>(sum == 0 ? 1 : 1 / sum);
        logs[first + r] = static_cast<double>(state.largest[static_cast<std::size_t>(r)]) + std::log(sum);
      }
    }
  });
}

/// Copies head vectors of the extents [batch, heads, positions, width].
template <class T>
void copy_heads(head_operand<T> from, head_rows<T> to, shape<4> const& extents) {
  if (extents.size() == 0) return;
  for (index_t b = 0; b < extents[0]; ++b)
    for (index_t h = 0; h < extents[1]; ++h)
      for (index_t n = 0; n < extents[2]; ++n)
        std::copy_n(from.at(b, h) + n * from.row, extents[3], to.at(b, h) + n * to.row);
}

/// delta = sum of out * dy over each row, what the gradient of every score of the row is lessened by.
template <class T>
void attention_delta(head_rows<T const> out, head_rows<T const> dy, block<double, 3> delta,
                     attention_geometry const& g) {
  if (delta.empty()) return;
  for (index_t head = 0; head < g.batch * g.heads; ++head) {
    T const* a = out.at(head / g.heads, head % g.heads);
    T const* b = dy.at(head / g.heads, head % g.heads);
    for (index_t r = 0; r < g.queries; ++r)
      delta.data[head * g.queries + r] =
          static_cast<double>((array(a + r * out.row, g.value_width) * array(b + r * dy.row, g.value_width)).sum());
  }
}

/// Turns the scores of row r of a tile into their probabilities and the gradients of the probabilities into those of
/// the scores; both become zeros where the query does not see the key.
template <class T>
void differentiate_scores(tile_view<T> const& tile, index_t r, T* scores, T* gradients, double log_sum, double delta,
                          T scale) {
  if (log_sum == -std::numeric_limits<double>::infinity()) {
    std::fill_n(scores, tile.count, T{0});
    std::fill_n(gradients, tile.count, T{0});
    return;
  }
  const index_t seen = tile.seen(r);
  tile.add_mask(scores, r);
  // In two steps, because scores of 10^4 are known to 10^-3 only, and a logarithm rounded like them would put all of
  // the row's probabilities off by that.
  const T coarse = static_cast<T>(log_sum);
  const T fine = std::isfinite(log_sum) ? static_cast<T>(log_sum - static_cast<double>(coarse)) : T{0};
  auto p = array(scores, seen);
  auto d = array(gradients, seen);
  p = ((p - coarse) - fine).exp();
  d = p * (d - static_cast<T>(delta)) * scale;
  tile.clear_hidden(scores, r);
  tile.clear_hidden(gradients, r);
}

/// Adds the gradients over these keys to dq, dk and dv.
template <class T>
void attention_backward(head_operand<T> q, head_operand<T> k, head_operand<T> v, head_operand<T> dy,
                        block<double const, 3> log_sum, block<double const, 3> delta, head_rows<T> dq, head_rows<T> dk,
                        head_rows<T> dv, attention_geometry const& g, head_operand<T> mask, workspace& scratch) {
  // By heads: the gradients of a head's keys are sums over its queries.
  const index_t cost = g.queries * g.keys * (4 + (g.width + g.value_width) / 8);
  scratch.split(g.batch * g.heads, cost, [&](index_t begin, index_t end, workspace& own) {
    T* scores = own.get<T>(0, query_tile * key_tile);
    T* gradients = own.get<T>(1, query_tile * key_tile);
    for (index_t head = begin; head < end; ++head) {
      const index_t b = head / g.heads;
      const index_t h = head % g.heads;
      const index_t at = head * g.queries;
      for (index_t first = 0; first < g.queries; first += query_tile) {
        const index_t rows = std::min(query_tile, g.queries - first);
        const index_t keys = g.seen(first + rows - 1);
        T const* from_q = q.at(b, h) + first * q.row;
        T const* from_dy = dy.at(b, h) + first * dy.row;
        for (index_t key = 0; key < keys; key += key_tile) {
          const index_t count = std::min(key_tile, keys - key);
          T const* from_k = k.at(b, h) + key * k.row;
          std::fill_n(scores, rows * count, T{0});
          std::fill_n(gradients, rows * count, T{0});
          add_product(static_cast<T>(g.scale), spaced(from_q, rows, g.width, q.row),
                      spaced_transposed(from_k, g.width, count, k.row), spaced(scores, rows, count, count));
          add_product(T{1}, spaced(from_dy, rows, g.value_width, dy.row),
                      spaced_transposed(v.at(b, h) + key * v.row, g.value_width, count, v.row),
                      spaced(gradients, rows, count, count));
          const tile_view<T> tile(g, mask.one(b, h), first, key, rows, count);
          for (index_t r = 0; r < rows; ++r)
            differentiate_scores(tile, r, scores + r * count, gradients + r * count, log_sum.data[at + first + r],
                                 delta.data[at + first + r], static_cast<T>(g.scale));
          add_by_key(tile, scores, from_dy, dy.row, dv.at(b, h) + key * dv.row, dv.row, g.value_width);
          add_by_query(tile, gradients, from_k, k.row, dq.at(b, h) + first * dq.row, dq.row, g.width);
          add_by_key(tile, gradients, from_q, q.row, dk.at(b, h) + key * dk.row, dk.row, g.width);
        }
      }
    }
  });
}

}  // namespace tessera::detail::eigen_kernels
