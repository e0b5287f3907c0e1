#include "on_ranks.hpp"

#include <tessera/comm/recording.hpp>
#include <tessera/op/attention.hpp>
#include <tessera/redistribute/to.hpp>

namespace {

using namespace on_ranks;

struct operands {
  tensor<double, 4> q, k, v, dy;
  operands(index_t queries, index_t keys)
      : q(worlds::values<double>(shape<4>{{2, 3, queries, 4}}, 1)),
        k(worlds::values<double>(shape<4>{{2, 3, keys, 4}}, 2)),
        v(worlds::values<double>(shape<4>{{2, 3, keys, 5}}, 3)),
        dy(worlds::values<double>(shape<4>{{2, 3, queries, 5}}, 4)) {}
};

struct outcome {
  tensor<double, 4> y, dq, dk, dv;
};

/// Numbers of positions.
struct sequence_lengths {
  index_t queries, keys;
};

/// Attention with queries in one layout and keys and values in another, whole again.
template <class Queries, class Keys, class Team>
outcome attention(Team& team, operands const& o, attention_options const& options) {
  const auto q = distribute<Queries>(team, o.q);
  const auto k = distribute<Keys>(team, o.k);
  const auto v = distribute<Keys>(team, o.v);
  const auto y = op::scaled_dot_product_attention(q, k, v, options);
  const auto d = op::scaled_dot_product_attention_backward(q, k, v, y, distribute<Queries>(team, o.dy), options);
  return {gather(y.out), gather(d.q), gather(d.k), gather(d.v)};
}

void compare(outcome const& found, outcome const& wanted) {
  CHECK(worlds::difference(found.y, wanted.y) <= 1e-12);
  CHECK(worlds::difference(found.dq, wanted.dq) <= 1e-12);
  CHECK(worlds::difference(found.dk, wanted.dk) <= 1e-12);
  CHECK(worlds::difference(found.dv, wanted.dv) <= 1e-12);
}

/// Heads [B, H, S, D] as one of `count` projections [B, S, count, H, D].
void place(tensor<double, 4> const& heads, tensor<double, 5>& to, index_t projection) {
  for (index_t b = 0; b < heads.extent(0); ++b)
    for (index_t h = 0; h < heads.extent(1); ++h)
      for (index_t s = 0; s < heads.extent(2); ++s)
        for (index_t d = 0; d < heads.extent(3); ++d) to(b, s, projection, h, d) = heads(b, h, s, d);
}
tensor<double, 5> as_projection(tensor<double, 4> const& heads) {
  tensor<double, 5> out(shape<5>{{heads.extent(0), heads.extent(2), 1, heads.extent(1), heads.extent(3)}});
  place(heads, out, 0);
  return out;
}

}  // namespace

TEST_CASE("every cut of positions gives the whole attention, with blocks of any size and none") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    for (const bool causal : {false, true})
      for (const auto n : {sequence_lengths{9, 9}, {3, 3}, {2, 9}, {9, 2}, {1, 1}, {0, 3}}) {
        CAPTURE(causal);
        CAPTURE(n.queries);
        CAPTURE(n.keys);
        const operands o(n.queries, n.keys);
        const attention_options options{causal, 0.7};
        const auto wanted = attention<replicated, replicated>(team, o, options);
        compare(attention<shard<2, axis>, shard<2, axis>>(team, o, options), wanted);
        compare(attention<shard<2, axis>, replicated>(team, o, options), wanted);
        compare(attention<shard<1, axis>, shard<1, axis>>(team, o, options), wanted);
        compare(attention<shard<0, axis>, shard<0, axis>>(team, o, options), wanted);
      }
  });
}

TEST_CASE("a sequence without keys gives zeros") {
  run([]<int N>(auto& team) {
    const auto found = attention<shard<2, all<N>>, shard<2, all<N>>>(team, operands(5, 0), {});
    for (const double one : found.y.view()) CHECK(one == 0);
    for (const double one : found.dq.view()) CHECK(one == 0);
  });
}

TEST_CASE("positions cut by two axes in either order") {
  if (worlds::size() != 4) return;
  struct first : axis<2> {};
  struct second : axis<2> {};
  worlds::parallel_team<mesh<first, second>> team{mpi_comm{}};
  for (const bool causal : {false, true}) {
    const operands o(11, 11);
    const auto wanted = attention<replicated, replicated>(team, o, {causal});
    using mesh_order = shard<2, first, second>;
    using other_order = shard<2, second, first>;
    using both = layout<shard<1, first>, shard<2, second>>;
    compare(attention<mesh_order, mesh_order>(team, o, {causal}), wanted);
    compare(attention<other_order, other_order>(team, o, {causal}), wanted);
    compare(attention<both, both>(team, o, {causal}), wanted);
  }
}

TEST_CASE("heads as to_heads gives them, apart and side by side") {
  run([]<int N>(auto& team) {
    using cut = shard<1, all<N>>;
    for (const bool causal : {false, true}) {
      const attention_options options{causal};
      operands o(7, 7);
      o.v = worlds::values<double>(o.k.extents(), 3);
      o.dy = worlds::values<double>(o.q.extents(), 4);
      const auto wanted = attention<replicated, replicated>(team, o, options);
      const auto q = distribute<cut>(team, as_projection(o.q));
      const auto k = distribute<cut>(team, as_projection(o.k));
      const auto v = distribute<cut>(team, as_projection(o.v));
      const auto dy = distribute<cut>(team, as_projection(o.dy));
      const auto y = op::scaled_dot_product_attention(q, k, v, options);
      const auto d = op::scaled_dot_product_attention_backward(q, k, v, y, dy, options);
      CHECK(worlds::difference(gather(y.out), as_projection(wanted.y)) <= 1e-12);
      CHECK(worlds::difference(gather(d.q), as_projection(wanted.dq)) <= 1e-12);
      CHECK(worlds::difference(gather(d.k), as_projection(wanted.dk)) <= 1e-12);
      CHECK(worlds::difference(gather(d.v), as_projection(wanted.dv)) <= 1e-12);

      tensor<double, 5> side_by_side(shape<5>{{2, 7, 3, 3, 4}});
      auto gradient = side_by_side.clone();
      for (const auto& [heads, to] : {std::pair{&o.q, 0}, {&o.k, 1}, {&o.v, 2}}) place(*heads, side_by_side, to);
      for (const auto& [heads, to] : {std::pair{&wanted.dq, 0}, {&wanted.dk, 1}, {&wanted.dv, 2}})
        place(*heads, gradient, to);
      const auto qkv = distribute<cut>(team, side_by_side);
      const auto z = op::scaled_dot_product_attention(qkv, options);
      CHECK(worlds::difference(gather(z.out), as_projection(wanted.y)) <= 1e-12);
      const auto first = op::scaled_dot_product_attention_backward(qkv, z, dy, options);
      CHECK(worlds::difference(gather(first), gradient) <= 1e-12);
      const auto again = op::scaled_dot_product_attention_backward(qkv, z, dy, options);
      CHECK(same_bits(first.local(), again.local()));
    }
  });
}

TEST_CASE("a ring makes exactly the messages of its plan, and no other cut makes any") {
  const recording<mpi_comm> inner{mpi_comm{}};
  const auto with = [&]<int Size>(std::integral_constant<int, Size>) {
    if (worlds::size() != Size) return;
    using axis = all<Size>;
    team<all_ranks<Size>, recording<mpi_comm>> team{inner};
    auto& log = team.group(1);
    for (const bool causal : {false, true})
      for (const auto n : {sequence_lengths{10, 10}, {2, 7}, {7, 2}}) {
        CAPTURE(causal);
        CAPTURE(n.queries);
        CAPTURE(n.keys);
        const operands o(n.queries, n.keys);
        const auto run = [&]<class Queries, class Keys>(std::type_identity<Queries>, std::type_identity<Keys>) {
          const auto q = distribute<Queries>(team, o.q);
          const auto k = distribute<Keys>(team, o.k);
          const auto v = distribute<Keys>(team, o.v);
          const auto dy = distribute<Queries>(team, o.dy);
          log.clear();
          const auto y = op::scaled_dot_product_attention(q, k, v, {causal});
          const auto forward = log.calls();
          log.clear();
          op::scaled_dot_product_attention_backward(q, k, v, y, dy, {causal});
          return std::pair{forward, log.calls()};
        };
        CHECK(run(std::type_identity<shard<2, axis>>{}, std::type_identity<replicated>{}).first.empty());
        CHECK(run(std::type_identity<shard<2, axis>>{}, std::type_identity<replicated>{}).second.empty());
        CHECK(run(std::type_identity<shard<1, axis>>{}, std::type_identity<shard<1, axis>>{}).second.empty());
        if (Size == 1) continue;

        const auto [forward, backward] =
            run(std::type_identity<shard<2, axis>>{}, std::type_identity<shard<2, axis>>{});
        const auto parts = [&](index_t extent) {
          return parts_along<all_ranks<Size>>(0, placements_of<all_ranks<Size>, row<axis>>, shape<1>{{extent}},
                                              team.coordinates());
        };
        const ring_plan plan(parts(n.queries), parts(n.keys), causal);
        const int rank = team.coordinates()[0];
        constexpr index_t elements = 2 * 3 * (4 + 5);
        const auto count = [](auto const& calls, collective kind) {
          ring_traffic sum;
          for (auto const& call : calls) {
            CHECK((call.kind == collective::send || call.kind == collective::receive));
            if (call.kind == kind) sum.add({0, call.elements});
          }
          return sum;
        };
        const auto expected = [](ring_traffic blocks, ring_traffic gradients = {}) {
          return ring_traffic{(blocks.positions + gradients.positions) * elements,
                              blocks.messages + gradients.messages};
        };
        CHECK(count(forward, collective::send) == expected(plan.blocks_sent(rank)));
        CHECK(count(forward, collective::receive) == expected(plan.blocks_received(rank)));
        CHECK(count(backward, collective::send) == expected(plan.blocks_sent(rank), plan.gradients_sent(rank)));
        CHECK(count(backward, collective::receive) ==
              expected(plan.blocks_received(rank), plan.gradients_received(rank)));
      }
  };
  with(std::integral_constant<int, 1>{});
  with(std::integral_constant<int, 2>{});
  with(std::integral_constant<int, 3>{});
  with(std::integral_constant<int, 4>{});
}

TEST_CASE("operands of attention that do not fit are an error on every rank") {
  run([]<int N>(auto& team) {
    const operands o(5, 6);
    const auto q = distribute<replicated>(team, o.q);
    const auto k = distribute<replicated>(team, o.k);
    const auto v = distribute<replicated>(team, o.v);
    CHECK_THROWS_WITH_AS(op::scaled_dot_product_attention(v, k, v), doctest::Contains("width of the keys"), error);
    CHECK_THROWS_WITH_AS(op::scaled_dot_product_attention(q, k, q), doctest::Contains("number of values"), error);
    const auto few = distribute<replicated>(team, tensor<double, 4>(shape<4>{{2, 2, 6, 4}}, 0.0));
    CHECK_THROWS_WITH_AS(op::scaled_dot_product_attention(q, few, v), doctest::Contains("number of heads"), error);
    const auto y = op::scaled_dot_product_attention(q, k, v);
    CHECK_THROWS_WITH_AS(op::scaled_dot_product_attention_backward(q, k, v, y, q),
                         doctest::Contains("the gradient of attention"), error);
    const auto two = distribute<replicated>(team, tensor<double, 5>(shape<5>{{2, 5, 2, 3, 4}}, 0.0));
    CHECK_THROWS_WITH_AS(op::scaled_dot_product_attention(two), doctest::Contains("number of projections"), error);
  });
}
