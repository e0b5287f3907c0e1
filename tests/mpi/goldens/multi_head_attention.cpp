#include "support/golden_worlds.hpp"

#include <tessera/op/attention.hpp>
#include <tessera/op/heads.hpp>
#include <tessera/op/matmul.hpp>

namespace {

using namespace tessera;
using tessera::index_t;

const golden::built here("multi_head_attention");

/// A part of an array along its first dimension, with other extents.
golden::array part_of(golden::array const& a, index_t first, std::vector<index_t> extents) {
  std::size_t size = 1;
  for (const index_t e : extents) size *= static_cast<std::size_t>(e);
  golden::array out = a;
  const auto begin = a.values.begin() + first;
  out.values.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
  out.extents = std::move(extents);
  return out;
}

/// The layer in operators, because its sizes are those of the case. Letters: b samples, s positions, h heads.
struct multi_head_case {
  template <class T, class Cuts, class Team>
  static void run(Team& team, golden::trial& t) {
    auto const& given = t.what().given;
    const auto features = static_cast<index_t>(given.number("embed_dim"));
    const auto heads = static_cast<index_t>(given.number("num_heads"));
    const index_t width = features / heads;
    const attention_options options{given.is("causal")};
    const bool itself = given.is("self_attention");
    const index_t projections = itself ? 3 : 1;
    const bool biased = given.is("bias");

    using sequence = sharded<T, 3, typename Cuts::template of<'b', 's', 'f'>, Team>;
    using in_weight = sharded<T, 3, typename Cuts::template of<'p', 'h', 'k'>, Team>;
    std::vector<sequence> x;
    for (char const* name : {"x", "q", "k", "v"})
      if (t.has(name)) x.push_back(golden::put<T, 3, typename sequence::layout_type>(team, t[name]));
    std::vector<in_weight> w;
    std::vector<decltype(op::to_heads(x[0], w[0]))> projected;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto p = static_cast<index_t>(i);
      w.push_back(golden::put<T, 3, typename in_weight::layout_type>(
          team, part_of(t["in_proj_weight"], p * features * features, {projections, heads, width * features})));
      projected.push_back(op::to_heads(x[i], w[i]));
      if (biased)
        op::add_head_bias(projected[i],
                          golden::put<T, 3, typename in_weight::layout_type>(
                              team, part_of(t["in_proj_bias"], p * features, {projections, heads, width})));
    }
    const auto attended = itself ? op::scaled_dot_product_attention(projected[0], options)
                                 : op::scaled_dot_product_attention(projected[0], projected[1], projected[2], options);
    const auto w_out = golden::put<T, 3, typename Cuts::template of<'o', 'h', 'd'>>(
        team, part_of(t["out_proj_weight"], 0, {features, heads, width}));
    auto y = op::from_heads(attended.out, w_out);
    if (biased) op::add_bias_once(y, golden::put<T, 1, typename Cuts::template of<'o'>>(team, t["out_proj_bias"]));
    golden::expect(t, "out", y);

    const auto dy = golden::put_gradient<decltype(y)>(team, t["grad_out"]);
    using dy_type = std::remove_const_t<decltype(dy)>;
    using attended_type = std::remove_const_t<decltype(attended.out)>;
    result_of<detail::from_heads_weight_gradient_op, 3, dy_type, attended_type> dw_out(team, w_out.extents());
    op::from_heads_backward_weight(dy, attended.out, dw_out);
    t.expect("grad_out_proj_weight", {features, features}, golden::values_of(dw_out));
    if (biased) {
      result_of<detail::bias_gradient_op<3>, 1, dy_type> db(team, shape<1>{{features}});
      op::bias_backward(dy, db);
      golden::expect(t, "grad_out_proj_bias", db);
    }
    const auto upstream = op::from_heads_backward_input(dy, w_out);
    using heads_type = std::remove_const_t<typename decltype(projected)::value_type>;
    std::vector<heads_type> d;
    if (itself) {
      d.push_back(op::scaled_dot_product_attention_backward(projected[0], attended, upstream, options));
    } else {
      const auto all = op::scaled_dot_product_attention_backward(projected[0], projected[1], projected[2], attended,
                                                                 upstream, options);
      d = {all.q, all.k, all.v};
    }
    std::vector<double> dw_all;
    std::vector<double> db_all;
    for (std::size_t i = 0; i < d.size(); ++i) {
      golden::expect(t,
                     itself   ? "grad_x"
                     : i == 0 ? "grad_q"
                     : i == 1 ? "grad_k"
                              : "grad_v",
                     op::to_heads_backward_input(d[i], w[i]));
      result_of<detail::to_heads_weight_gradient_op, 3, heads_type, sequence> dw(team, w[i].extents());
      op::to_heads_backward_weight(d[i], x[i], dw);
      for (const double one : golden::values_of(dw)) dw_all.push_back(one);
      result_of<detail::head_bias_gradient_op, 3, heads_type> db(team, shape<3>{{projections, heads, width}});
      op::head_bias_backward(d[i], db);
      for (const double one : golden::values_of(db)) db_all.push_back(one);
    }
    t.expect("grad_in_proj_weight", {3 * features, features}, dw_all);
    if (biased) t.expect("grad_in_proj_bias", {3 * features}, db_all);
  }
};

}  // namespace

TEST_CASE("multi-head attention in operators equals its reference cases") {
  golden::run("multi_head_attention", [](golden::teams& all, golden::test_case const& c) {
    return golden::run_cuts<multi_head_case, 'b', 's', 'h'>(all, c);
  });
}
