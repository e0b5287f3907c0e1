#include "on_ranks.hpp"
#include "support/finite_differences.hpp"

#include <tessera/op/attention.hpp>
#include <tessera/op/heads.hpp>

namespace {

using namespace on_ranks;

/// Gradients of attention with queries in one layout and keys and values in another.
template <class Queries, class Keys, class Team>
void check(Team& team, index_t queries, index_t keys, attention_options const& options) {
  const auto q = worlds::values<double>(shape<4>{{2, 2, queries, 3}}, 1);
  const auto k = worlds::values<double>(shape<4>{{2, 2, keys, 3}}, 2);
  const auto v = worlds::values<double>(shape<4>{{2, 2, keys, 2}}, 3);
  const auto dy = worlds::values<double>(shape<4>{{2, 2, queries, 2}}, 4);
  const auto attend = [&](auto const& a, auto const& b, auto const& c) {
    return op::scaled_dot_product_attention(distribute<Queries>(team, a), distribute<Keys>(team, b),
                                            distribute<Keys>(team, c), options);
  };
  const auto d = op::scaled_dot_product_attention_backward(distribute<Queries>(team, q), distribute<Keys>(team, k),
                                                           distribute<Keys>(team, v), attend(q, k, v),
                                                           distribute<Queries>(team, dy), options);
  using finite_differences::weighted_sum;
  finite_differences::check([&](auto const& x) { return weighted_sum(attend(x, k, v).out, dy); }, q, gather(d.q));
  finite_differences::check([&](auto const& x) { return weighted_sum(attend(q, x, v).out, dy); }, k, gather(d.k));
  finite_differences::check([&](auto const& x) { return weighted_sum(attend(q, k, x).out, dy); }, v, gather(d.v));
}

}  // namespace

TEST_CASE("gradients of attention equal finite differences") {
  run([]<int N>(auto& team) {
    using cut = shard<2, all<N>>;
    check<cut, cut>(team, 5, 5, {true});
    check<cut, cut>(team, 3, 6, {false, 0.5});
    check<cut, replicated>(team, 6, 3, {true});
  });
}

TEST_CASE("gradients of projections to and from heads equal finite differences") {
  run([]<int N>(auto& team) {
    using axis = all<N>;
    const auto x = worlds::values<double>(shape<3>{{2, 3, 6}}, 1);
    const auto w = worlds::values<double>(shape<3>{{2, 3, 2 * 6}}, 2);
    const auto bias = worlds::values<double>(shape<3>{{2, 3, 2}}, 3);
    const auto dy = worlds::values<double>(shape<5>{{2, 3, 2, 3, 2}}, 4);
    const auto forward = [&](auto const& a, auto const& b, auto const& c) {
      auto y = op::to_heads(distribute<replicated>(team, a), distribute<column<axis>>(team, b));
      op::add_head_bias(y, distribute<column<axis>>(team, c));
      return y;
    };
    using finite_differences::weighted_sum;
    const auto heads = distribute<shard<3, axis>>(team, dy);
    const auto d_x = op::to_heads_backward_input(heads, distribute<column<axis>>(team, w));
    static_assert(d_x.placements.partial_axes() == 1);
    finite_differences::check([&](auto const& a) { return weighted_sum(forward(a, w, bias), dy); }, x, gather(d_x));
    sharded<double, 3, column<axis>, std::remove_reference_t<decltype(team)>> d_w(team, w.extents());
    op::to_heads_backward_weight(heads, distribute<replicated>(team, x), d_w);
    finite_differences::check([&](auto const& b) { return weighted_sum(forward(x, b, bias), dy); }, w, gather(d_w));
    sharded<double, 3, column<axis>, std::remove_reference_t<decltype(team)>> d_bias(team, bias.extents());
    op::head_bias_backward(heads, d_bias);
    finite_differences::check([&](auto const& c) { return weighted_sum(forward(x, w, c), dy); }, bias, gather(d_bias));

    const auto h = worlds::values<double>(shape<5>{{2, 3, 1, 3, 2}}, 5);
    const auto w_out = worlds::values<double>(shape<3>{{4, 3, 2}}, 6);
    const auto dz = worlds::values<double>(shape<3>{{2, 3, 4}}, 7);
    const auto back = [&](auto const& a, auto const& b) {
      return op::from_heads(distribute<shard<3, axis>>(team, a), distribute<column<axis>>(team, b));
    };
    static_assert(decltype(back(h, w_out))::placements.partial_axes() == 1);
    const auto whole = distribute<replicated>(team, dz);
    finite_differences::check([&](auto const& a) { return weighted_sum(back(a, w_out), dz); }, h,
                              gather(op::from_heads_backward_input(whole, distribute<column<axis>>(team, w_out))));
    sharded<double, 3, column<axis>, std::remove_reference_t<decltype(team)>> d_out(team, w_out.extents());
    op::from_heads_backward_weight(whole, distribute<shard<3, axis>>(team, h), d_out);
    finite_differences::check([&](auto const& b) { return weighted_sum(back(h, b), dz); }, w_out, gather(d_out));
  });
}

TEST_CASE("memory of attention grows as the sequence does, not as its square") {
  run([]<int N>(auto& team) {
    using cut = shard<1, all<N>>;
    const auto peak = [&](index_t positions) {
      const auto qkv = distribute<cut>(team, worlds::values<float>(shape<5>{{1, positions, 3, 1, 4}}, 1));
      const auto before = host_memory::used().live;
      host_memory::reset_peak();
      const auto y = op::scaled_dot_product_attention(qkv, {true});
      const auto d = op::scaled_dot_product_attention_backward(qkv, y, y.out, {true});
      return static_cast<double>(host_memory::used().peak - before);
    };
    peak(1024);  // kernels keep the scratch memory of a tile
    // All that there is for a position is some 300 bytes, how many blocks ever wait to be sent on; the scores of a
    // position would be 4 * 4096 / N.
    CHECK(peak(1024) < 400 * 1024);
    CHECK(peak(4096) < 400 * 4096);
  });
}
