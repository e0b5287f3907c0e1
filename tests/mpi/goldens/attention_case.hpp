#pragma once

#include "support/golden_worlds.hpp"

#include <tessera/op/attention.hpp>

/// Attention on [B, H, S, D]. `Keys` is the letter of the positions of keys: `s`, cut as the queries are, or another.
template <char Keys>
struct attention_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    using queries = typename Cuts::template of<'b', 'h', 's', 'd'>;
    using keys = typename Cuts::template of<'b', 'h', Keys, 'd'>;
    const auto q = golden::put<T, 4, queries>(team, t["q"]);
    const auto k = golden::put<T, 4, keys>(team, t["k"]);
    const auto v = golden::put<T, 4, keys>(team, t["v"]);
    const tessera::attention_options options{t.what().given.is("causal")};
    const auto y = tessera::op::scaled_dot_product_attention(q, k, v, options);
    golden::expect(t, "out", y.out);
    const auto dy = golden::put<T, 4, queries>(team, t["grad_out"]);
    const auto d = tessera::op::scaled_dot_product_attention_backward(q, k, v, y, dy, options);
    golden::expect(t, "grad_q", d.q);
    golden::expect(t, "grad_k", d.k);
    golden::expect(t, "grad_v", d.v);
  }
};
