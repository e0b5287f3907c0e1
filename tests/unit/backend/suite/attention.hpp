#pragma once

#include "../reference.hpp"

#include <limits>

namespace tessera::test::attention_suite {
namespace {

/// Head vectors in a block [batch, positions, heads, width], the heads apart from each other.
template <class T>
struct heads {
  tensor<T, 5> memory;
  shape<4> extents;  // batch, heads, positions, width

  heads(shape<4> const& s, unsigned seed)
      : memory(random_values<T, 5>({{s[0], s[2], 1, s[1], s[3]}}, seed)), extents(s) {}
  head_rows<T> rows() {
    return {memory.data(), extents[1] * extents[2] * extents[3], extents[3], extents[1] * extents[3]};
  }
  // Not by the tensor's own call, which works its strides out each time.
  T& operator()(index_t b, index_t h, index_t n, index_t d) {
    return memory.data()[((b * extents[2] + n) * extents[1] + h) * extents[3] + d];
  }
};

/// Attention of one query, in double, with all its scores at once.
template <class T>
struct naive {
  attention_geometry g;
  heads<T>& q;
  heads<T>& k;
  heads<T>& v;

  std::vector<double> probabilities(index_t b, index_t h, index_t i, double& log_sum) {
    std::vector<double> p(static_cast<std::size_t>(g.keys), 0.0);
    double most = -INFINITY;
    const index_t seen = g.causal ? std::clamp(g.first_query + i + 1 - g.first_key, index_t{0}, g.keys) : g.keys;
    for (index_t j = 0; j < seen; ++j) {
      double score = 0;
      for (index_t d = 0; d < g.width; ++d)
        score += static_cast<double>(q(b, h, i, d)) * static_cast<double>(k(b, h, j, d));
      p[static_cast<std::size_t>(j)] = score * g.scale;
      most = std::max(most, score * g.scale);
    }
    double sum = 0;
    for (index_t j = 0; j < seen; ++j)
      sum += p[static_cast<std::size_t>(j)] = std::exp(p[static_cast<std::size_t>(j)] - most);
    for (double& one : p) one = sum == 0 ? 0 : one / sum;
    log_sum = sum == 0 ? -INFINITY : most + std::log(sum);
    return p;
  }
};

template <class T>
void check(attention_geometry const& g, double bound = tolerance<T>) {
  CAPTURE(g.queries);
  CAPTURE(g.keys);
  suite_kernels kernels;
  const shape<4> of_q{{g.batch, g.heads, g.queries, g.width}};
  const shape<4> of_k{{g.batch, g.heads, g.keys, g.width}};
  const shape<4> of_v{{g.batch, g.heads, g.keys, g.value_width}};
  const shape<4> of_y{{g.batch, g.heads, g.queries, g.value_width}};
  heads<T> q(of_q, 1), k(of_k, 2), v(of_v, 3), dy(of_y, 4), y(of_y, 5), dq(of_q, 6), dk(of_k, 7), dv(of_v, 8);
  const shape<3> rows{{g.batch, g.heads, g.queries}};
  tensor<double, 3> log_sum(rows), delta(rows);
  kernels.attention_forward(q.rows(), k.rows(), v.rows(), y.rows(), log_sum.view(), g);
  kernels.attention_delta(head_rows<T const>(y.rows()), dy.rows(), delta.view(), g);

  // Gradients are added to what is there.
  tensor<double, 5> want_y(y.memory.extents(), 0.0);
  auto want_q = as_double(dq.memory), want_k = as_double(dk.memory), want_v = as_double(dv.memory);
  kernels.attention_backward(q.rows(), k.rows(), v.rows(), dy.rows(), log_sum.read(), delta.read(), dq.rows(),
                             dk.rows(), dv.rows(), g);
  tensor<double, 3> want_log(rows);
  naive<T> one{g, q, k, v};
  for (index_t b = 0; b < g.batch; ++b)
    for (index_t h = 0; h < g.heads; ++h)
      for (index_t i = 0; i < g.queries; ++i) {
        const auto p = one.probabilities(b, h, i, want_log(b, h, i));
        std::vector<double> dp(p.size(), 0.0);
        double mean = 0;
        for (index_t j = 0; j < g.keys; ++j) {
          const auto at = static_cast<std::size_t>(j);
          for (index_t e = 0; e < g.value_width; ++e) {
            want_y(b, i, 0, h, e) += p[at] * static_cast<double>(v(b, h, j, e));
            want_v(b, j, 0, h, e) += p[at] * static_cast<double>(dy(b, h, i, e));
            dp[at] += static_cast<double>(dy(b, h, i, e)) * static_cast<double>(v(b, h, j, e));
          }
          mean += p[at] * dp[at];
        }
        for (index_t j = 0; j < g.keys; ++j) {
          const double ds = p[static_cast<std::size_t>(j)] * (dp[static_cast<std::size_t>(j)] - mean) * g.scale;
          for (index_t d = 0; d < g.width; ++d) {
            want_q(b, i, 0, h, d) += ds * static_cast<double>(k(b, h, j, d));
            want_k(b, j, 0, h, d) += ds * static_cast<double>(q(b, h, i, d));
          }
        }
      }
  CHECK(worst(y.memory, want_y) <= bound);
  CHECK(worst(log_sum, want_log) <= bound);
  CHECK(worst(dq.memory, want_q) <= bound);
  CHECK(worst(dk.memory, want_k) <= bound);
  CHECK(worst(dv.memory, want_v) <= bound);
}

}  // namespace

TEST_CASE_TEMPLATE(TESSERA_BACKEND "attention equals that of all scores at once", T, TESSERA_ELEMENTS) {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    check<T>({2, 3, 5, 7, 4, 6, 0, 0, causal, 0.5});
    check<T>({1, 1, 1, 1, 1, 1, 0, 0, causal, 1});
    check<T>({1, 2, 64, 128, 8, 8, 0, 0, causal, 0.3});
    check<T>({1, 1, 131, 259, 5, 3, 0, 0, causal, 0.7});
    check<T>({1, 1, 200, 70, 3, 5, 0, 0, causal, 0.7});
  }
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "a query sees the keys up to its position in the whole sequence", T,
                   TESSERA_ELEMENTS) {
  check<T>({1, 2, 70, 140, 4, 4, 100, 0, true, 0.5});
  check<T>({1, 2, 70, 140, 4, 4, 0, 30, true, 0.5});    // the first 30 queries see none
  check<T>({1, 2, 10, 10, 4, 4, 0, 10, true, 0.5});     // nobody sees any
  check<T>({1, 2, 10, 10, 4, 4, 1000, 10, true, 0.5});  // all see all
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "attention of empty blocks", T, TESSERA_ELEMENTS) {
  check<T>({0, 2, 3, 4, 2, 2, 0, 0, false, 1});
  check<T>({2, 0, 3, 4, 2, 2, 0, 0, false, 1});
  check<T>({1, 2, 0, 4, 2, 2, 0, 0, true, 1});
  check<T>({1, 2, 3, 0, 2, 2, 0, 0, false, 1});
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "scores of 10^4 neither overflow nor lose their probabilities" *
                       doctest::skip(TESSERA_FLOAT_STATISTICS),
                   T, TESSERA_ELEMENTS) {
  attention_geometry g{1, 1, 70, 150, 2, 3, 0, 0, false, 1};
  heads<T> q({{1, 1, 70, 2}}, 1), k({{1, 1, 150, 2}}, 2), v({{1, 1, 150, 3}}, 3), y({{1, 1, 70, 3}}, 4);
  // 10^4 and a small difference, both exact in float.
  for (index_t i = 0; i < 70; ++i) {
    q(0, 0, i, 0) = 128;
    q(0, 0, i, 1) = 1;
  }
  for (index_t j = 0; j < 150; ++j) {
    k(0, 0, j, 0) = 80;
    k(0, 0, j, 1) = static_cast<T>(j % 8) / 4;
  }
  suite_kernels kernels;
  tensor<double, 3> log_sum(shape<3>{{1, 1, 70}}), delta(shape<3>{{1, 1, 70}}, 0.0);
  kernels.attention_forward(q.rows(), k.rows(), v.rows(), y.rows(), log_sum.view(), g);
  double want = 0;
  for (index_t j = 0; j < 150; ++j) want += std::exp(static_cast<double>(j % 8) / 4);
  for (const double one : log_sum.view()) CHECK(one == doctest::Approx(10240 + std::log(want)).epsilon(1e-10));
  // With dy = 1 and delta = 0 the gradient of v is the sum of the probabilities of its key: all of them make one a row.
  heads<T> dy({{1, 1, 70, 3}}, 5), dq({{1, 1, 70, 2}}, 6), dk({{1, 1, 150, 2}}, 7), dv({{1, 1, 150, 3}}, 8);
  std::fill(dy.memory.view().begin(), dy.memory.view().end(), T{1});
  std::fill(dv.memory.view().begin(), dv.memory.view().end(), T{0});
  kernels.attention_backward(q.rows(), k.rows(), v.rows(), dy.rows(), log_sum.read(), delta.read(), dq.rows(),
                             dk.rows(), dv.rows(), g);
  double sum = 0;
  for (index_t j = 0; j < 150; ++j) sum += static_cast<double>(dv(0, 0, j, 0));
  CHECK(sum == doctest::Approx(70).epsilon(sizeof(T) == 4 ? 2e-6 : 1e-11));
}

TEST_CASE_TEMPLATE(TESSERA_BACKEND "keys that come in parts give the result of all keys", T, TESSERA_ELEMENTS) {
  for (const bool causal : {false, true}) {
    const attention_geometry g{2, 2, 90, 300, 4, 3, 150, 0, causal, 0.5};
    heads<T> q({{2, 2, 90, 4}}, 1), k({{2, 2, 300, 4}}, 2), v({{2, 2, 300, 3}}, 3), y({{2, 2, 90, 3}}, 4), whole(y);
    whole.memory = y.memory.clone();
    suite_kernels kernels;
    tensor<double, 3> log_sum(shape<3>{{2, 2, 90}}), of_whole(shape<3>{{2, 2, 90}});
    kernels.attention_forward(q.rows(), k.rows(), v.rows(), whole.rows(), of_whole.view(), g);
    // The last part first: under a causal mask some of its keys are seen by nobody.
    bool continued = false;
    for (const interval keys : {interval{200, 100}, {0, 40}, {40, 160}}) {
      attention_geometry part = g;
      part.first_key = keys.begin;
      part.keys = keys.size;
      const auto from = [&](head_rows<T> r) {
        return head_rows<T>{r.data + keys.begin * r.row, r.batch, r.head, r.row};
      };
      kernels.attention_forward(q.rows(), from(k.rows()), from(v.rows()), y.rows(), log_sum.view(), part, continued);
      continued = true;
    }
    CHECK(worst(y.memory, as_double(whole.memory)) <= tolerance<T>);
    CHECK(worst(log_sum, of_whole) <= tolerance<T>);
  }
}

TEST_CASE(TESSERA_BACKEND "NaN and infinity reach the rows that see them and no other") {
  const attention_geometry g{1, 1, 4, 4, 2, 2, 0, 0, true, 1};
  heads<float> q({{1, 1, 4, 2}}, 1), k({{1, 1, 4, 2}}, 2), v({{1, 1, 4, 2}}, 3), y({{1, 1, 4, 2}}, 4);
  q(0, 0, 1, 0) = std::numeric_limits<float>::quiet_NaN();
  suite_kernels kernels;
  tensor<double, 3> log_sum(shape<3>{{1, 1, 4}});
  kernels.attention_forward(q.rows(), k.rows(), v.rows(), y.rows(), log_sum.view(), g);
  for (index_t i = 0; i < 4; ++i) CHECK(std::isnan(y(0, 0, i, 0)) == (i == 1));
  // Later keys are unseen, so their NaN stays out of the scores of earlier queries.
  q(0, 0, 1, 0) = 0;
  k(0, 0, 2, 0) = std::numeric_limits<float>::quiet_NaN();
  kernels.attention_forward(q.rows(), k.rows(), v.rows(), y.rows(), log_sum.view(), g);
  for (index_t i = 0; i < 4; ++i) CHECK(std::isnan(y(0, 0, i, 0)) == (i >= 2));
  // A score of infinity less itself is not a number; one of minus infinity is no key at all.
  k(0, 0, 2, 0) = std::numeric_limits<float>::infinity();
  q(0, 0, 2, 0) = 1;
  q(0, 0, 3, 0) = -1;
  kernels.attention_forward(q.rows(), k.rows(), v.rows(), y.rows(), log_sum.view(), g);
  for (index_t i = 0; i < 4; ++i) CHECK(std::isnan(y(0, 0, i, 0)) == (i == 2));
}

TEST_CASE(TESSERA_BACKEND "keys whose scores are minus infinity give the same NaN in parts as at once") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const attention_geometry g{1, 1, 2, 4, 2, 2, 0, 0, false, 1};
  heads<float> q({{1, 1, 2, 2}}, 1), k({{1, 1, 4, 2}}, 2), v({{1, 1, 4, 2}}, 3);
  q(0, 0, 0, 0) = q(0, 0, 1, 0) = 1;
  k(0, 0, 0, 0) = k(0, 0, 1, 0) = -std::numeric_limits<float>::infinity();
  v(0, 0, 1, 0) = nan;
  suite_kernels kernels;
  tensor<double, 3> log_sum(shape<3>{{1, 1, 2}});
  heads<float> once({{1, 1, 2, 2}}, 4), parts({{1, 1, 2, 2}}, 5);
  kernels.attention_forward(q.rows(), k.rows(), v.rows(), once.rows(), log_sum.view(), g);
  auto of_two = g;
  of_two.keys = 2;
  for (const index_t begin : {0, 2}) {
    bool continued = false;
    for (const index_t key : {begin, 2 - begin}) {
      auto at_keys = k.rows(), at_values = v.rows();
      at_keys.data += key * at_keys.row;
      at_values.data += key * at_values.row;
      kernels.attention_forward(q.rows(), at_keys, at_values, parts.rows(), log_sum.view(), of_two, continued);
      continued = true;
    }
    for (index_t i = 0; i < 2; ++i) {
      CHECK(std::isnan(once(0, 0, i, 0)));
      CHECK(std::isnan(parts(0, 0, i, 0)));
      CHECK(parts(0, 0, i, 1) == doctest::Approx(once(0, 0, i, 1)));
    }
  }
}

}  // namespace tessera::test::attention_suite
