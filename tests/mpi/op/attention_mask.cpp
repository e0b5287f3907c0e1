#include "on_ranks.hpp"

#include <tessera/op/attention.hpp>
#include <tessera/redistribute/to.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace {

using namespace on_ranks;

constexpr double hidden = -std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

struct operands {
  tensor<double, 4> q, k, v, dy;
  operands(index_t queries, index_t keys)
      : q(worlds::values<double>(shape<4>{{2, 4, queries, 3}}, 1)),
        k(worlds::values<double>(shape<4>{{2, 4, keys, 3}}, 2)),
        v(worlds::values<double>(shape<4>{{2, 4, keys, 5}}, 3)),
        dy(worlds::values<double>(shape<4>{{2, 4, queries, 5}}, 4)) {}
};

struct outcome {
  tensor<double, 4> y, dq, dk, dv;
  explicit outcome(operands const& o)
      : y(o.dy.extents(), 0.0), dq(o.q.extents(), 0.0), dk(o.k.extents(), 0.0), dv(o.v.extents(), 0.0) {}
  outcome(tensor<double, 4> y_, tensor<double, 4> q, tensor<double, 4> k, tensor<double, 4> v)
      : y(std::move(y_)), dq(std::move(q)), dk(std::move(k)), dv(std::move(v)) {}
};

/// What a key adds to the score of a query; `hidden` where it is not seen.
using mask_function = std::function<double(index_t b, index_t h, index_t i, index_t j)>;

/// Attention and its gradients from all scores at once, over the keys that a query sees alone.
outcome by_hand(operands const& o, double scale, mask_function const& mask) {
  outcome r(o);
  const index_t keys = o.k.extent(2);
  for (index_t b = 0; b < o.q.extent(0); ++b)
    for (index_t h = 0; h < o.q.extent(1); ++h)
      for (index_t i = 0; i < o.q.extent(2); ++i) {
        std::vector<index_t> seen;
        for (index_t j = 0; j < keys; ++j)
          if (mask(b, h, i, j) != hidden) seen.push_back(j);
        std::vector<double> p;
        double sum = 0;
        for (const index_t j : seen) {
          double score = mask(b, h, i, j);
          for (index_t d = 0; d < 3; ++d) score += scale * o.q(b, h, i, d) * o.k(b, h, j, d);
          p.push_back(std::exp(score));
          sum += p.back();
        }
        double delta = 0;
        for (std::size_t n = 0; n < seen.size(); ++n) {
          p[n] /= sum;
          for (index_t e = 0; e < 5; ++e) {
            r.y(b, h, i, e) += p[n] * o.v(b, h, seen[n], e);
            r.dv(b, h, seen[n], e) += p[n] * o.dy(b, h, i, e);
            delta += p[n] * o.v(b, h, seen[n], e) * o.dy(b, h, i, e);
          }
        }
        for (std::size_t n = 0; n < seen.size(); ++n) {
          double of_score = 0;
          for (index_t e = 0; e < 5; ++e) of_score += o.v(b, h, seen[n], e) * o.dy(b, h, i, e);
          of_score = scale * p[n] * (of_score - delta);
          for (index_t d = 0; d < 3; ++d) {
            r.dq(b, h, i, d) += of_score * o.k(b, h, seen[n], d);
            r.dk(b, h, seen[n], d) += of_score * o.q(b, h, i, d);
          }
        }
      }
  return r;
}

/// Values that are not numbers are the same ones, the others close.
void compare(outcome const& found, outcome const& wanted) {
  CHECK(worlds::difference(found.y, wanted.y) <= 1e-12);
  CHECK(worlds::difference(found.dq, wanted.dq) <= 1e-12);
  CHECK(worlds::difference(found.dk, wanted.dk) <= 1e-12);
  CHECK(worlds::difference(found.dv, wanted.dv) <= 1e-12);
}

template <class Queries, class Keys, class Mask, int Rank, class Team>
outcome attention(Team& team, operands const& o, tensor<double, Rank> const& mask, attention_options const& options) {
  const auto q = distribute<Queries>(team, o.q);
  const auto k = distribute<Keys>(team, o.k);
  const auto v = distribute<Keys>(team, o.v);
  const auto m = distribute<Mask>(team, mask);
  const auto y = op::scaled_dot_product_attention(q, k, v, m, options);
  const auto d = op::scaled_dot_product_attention_backward(q, k, v, m, y, distribute<Queries>(team, o.dy), options);
  return {gather(y.out), gather(d.q), gather(d.k), gather(d.v)};
}
template <class Queries, class Keys, class Team>
outcome attention(Team& team, operands const& o, attention_options const& options) {
  const auto q = distribute<Queries>(team, o.q);
  const auto k = distribute<Keys>(team, o.k);
  const auto v = distribute<Keys>(team, o.v);
  const auto y = op::scaled_dot_product_attention(q, k, v, options);
  const auto d = op::scaled_dot_product_attention_backward(q, k, v, y, distribute<Queries>(team, o.dy), options);
  return {gather(y.out), gather(d.q), gather(d.k), gather(d.v)};
}

/// A mask that hides every third key, and all keys of query 2; other scores are raised or lowered.
double some_of(index_t b, index_t h, index_t i, index_t j) {
  return i == 2 || (i + 2 * j + b + h) % 3 == 0 ? hidden : 0.25 * static_cast<double>((i + j + h) % 5) - 0.5;
}

template <int Rank>
tensor<double, Rank> mask_of(shape<Rank> const& extents) {
  tensor<double, Rank> m(extents);
  if constexpr (Rank == 2) {
    for (index_t i = 0; i < extents[0]; ++i)
      for (index_t j = 0; j < extents[1]; ++j) m(i, j) = some_of(0, 0, i, j);
  } else {
    for (index_t b = 0; b < extents[0]; ++b)
      for (index_t h = 0; h < extents[1]; ++h)
        for (index_t i = 0; i < extents[2]; ++i)
          for (index_t j = 0; j < extents[3]; ++j) m(b, h, i, j) = some_of(b, h, i, j);
  }
  return m;
}

}  // namespace

TEST_CASE("a mask hides keys from queries, wherever both are") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    for (const bool causal : {false, true})
      for (auto const& extents : {shape<2>{9, 9}, shape<2>{70, 140}, shape<2>{5, 2}}) {
        const index_t queries = extents[0];
        const index_t keys = extents[1];
        CAPTURE(causal);
        CAPTURE(queries);
        const operands o(queries, keys);
        const attention_options options{causal, 0.7};
        const auto wanted = [&](bool samples, bool heads) {
          return by_hand(o, 0.7, [&](index_t b, index_t h, index_t i, index_t j) {
            return causal && j > i ? hidden : some_of(samples ? b : 0, heads ? h : 0, i, j);
          });
        };
        const auto flat = mask_of(shape<2>{queries, keys});
        const auto of_flat = wanted(false, false);
        compare(attention<replicated, replicated, replicated>(team, o, flat, options), of_flat);
        compare(attention<shard<2, axis>, shard<2, axis>, replicated>(team, o, flat, options), of_flat);
        compare(attention<shard<2, axis>, shard<2, axis>, shard<0, axis>>(team, o, flat, options), of_flat);
        compare(attention<shard<2, axis>, replicated, shard<0, axis>>(team, o, flat, options), of_flat);
        compare(attention<shard<1, axis>, shard<1, axis>, replicated>(team, o, flat, options), of_flat);
        const auto full = mask_of(shape<4>{2, 4, queries, keys});
        const auto of_full = wanted(true, true);
        compare(attention<shard<2, axis>, shard<2, axis>, shard<2, axis>>(team, o, full, options), of_full);
        compare(attention<shard<1, axis>, shard<1, axis>, shard<1, axis>>(team, o, full, options), of_full);
        compare(attention<shard<1, axis>, shard<1, axis>, replicated>(team, o, full, options), of_full);
        compare(attention<shard<0, axis>, shard<0, axis>, shard<0, axis>>(team, o, full, options), of_full);
        compare(attention<shard<0, axis>, shard<0, axis>, replicated>(team, o, mask_of(shape<4>{2, 1, queries, keys}),
                                                                      options),
                wanted(true, false));
        compare(attention<shard<2, axis>, shard<2, axis>, shard<2, axis>>(
                    team, o, mask_of(shape<4>{1, 4, queries, keys}), options),
                wanted(false, true));
      }
  });
}

TEST_CASE("what a query does not see adds nothing to it, nor it to that, whatever both hold") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    const index_t length = 150;
    const auto wanted = attention<replicated, replicated>(team, operands(length, length), {true, 0.5});
    // Within a tile of queries and at the edges of tiles.
    for (const index_t at : {index_t{10}, index_t{63}, index_t{64}, index_t{149}}) {
      CAPTURE(at);
      for (const double value : {not_a_number, hidden, -hidden})
        for (int which = 0; which < 4; ++which) {
          CAPTURE(value);
          CAPTURE(which);
          operands o(length, length);
          (which == 0 ? o.q : which == 1 ? o.k : which == 2 ? o.v : o.dy)(0, 1, at, 0) = value;
          const auto found = attention<shard<2, axis>, shard<2, axis>>(team, o, {true, 0.5});
          const auto alone = attention<replicated, replicated>(team, o, {true, 0.5});
          for (index_t i = 0; i < length; ++i) {
            const bool sees = i >= at;  // query i sees the key that is spoilt
            const bool seen = i <= at;  // the query that is spoilt sees key i
            const auto near = [&](auto const& a, auto const& b) {
              return std::abs(a(0, 1, i, 1) - b(0, 1, i, 1)) < 1e-12;
            };
            for (auto const* r : {&found, &alone}) {
              const bool by_query = which == 0 || which == 3;
              if (by_query ? i != at : !sees) CHECK((near(r->y, wanted.y) && near(r->dq, wanted.dq)));
              if (by_query && !seen) CHECK((near(r->dk, wanted.dk) && near(r->dv, wanted.dv)));
            }
          }
        }
    }
  });
}

TEST_CASE("what a mask hides adds nothing, whatever it holds") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    operands o(70, 20);
    const auto mask = [](index_t, index_t, index_t i, index_t j) {
      return j == 7 || (j == 11 && i < 60) ? hidden : 0.0;
    };
    tensor<double, 2> m(shape<2>{70, 20});
    for (index_t i = 0; i < 70; ++i)
      for (index_t j = 0; j < 20; ++j) m(i, j) = mask(0, 0, i, j);
    for (index_t d = 0; d < 3; ++d) o.k(1, 2, 7, d) = not_a_number;
    for (index_t d = 0; d < 5; ++d) o.v(1, 2, 7, d) = -hidden;
    o.v(0, 0, 11, 3) = not_a_number;
    const auto wanted = by_hand(o, 1, mask);
    compare(attention<replicated, replicated, replicated>(team, o, m, {false, 1}), wanted);
    compare(attention<shard<2, axis>, shard<2, axis>, shard<0, axis>>(team, o, m, {false, 1}), wanted);
    compare(attention<shard<1, axis>, shard<1, axis>, replicated>(team, o, m, {false, 1}), wanted);
  });
}

TEST_CASE("masks of other extents are errors") {
  run([]<int N>(auto& team) {
    const operands o(6, 8);
    const auto with = [&](auto const& m) { attention<replicated, replicated, replicated>(team, o, m, {}); };
    CHECK_THROWS_WITH_AS(with(mask_of(shape<2>{6, 7})), doctest::Contains("number of keys in the mask of attention"),
                         error);
    CHECK_THROWS_WITH_AS(with(mask_of(shape<2>{5, 8})), doctest::Contains("number of queries in the mask"), error);
    CHECK_THROWS_WITH_AS(with(mask_of(shape<4>{3, 1, 6, 8})), doctest::Contains("number of samples in the mask"),
                         error);
    CHECK_THROWS_WITH_AS(with(mask_of(shape<4>{1, 2, 6, 8})), doctest::Contains("number of heads in the mask"), error);
  });
}
