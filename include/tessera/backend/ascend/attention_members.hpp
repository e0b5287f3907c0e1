#pragma once

#include <tessera/backend/ascend/embedding_members.hpp>
#include <tessera/backend/attention.hpp>

#include <aclnnop/aclnn_gt_scalar.h>

namespace tessera::detail::ascend_kernels {

/// Attention with all scores of a block at once, [batch, heads, queries, keys], of batched products and operators for
/// elements. Log-sums and deltas are [batch, heads, queries], in float.
///
/// A key that a query does not see has the weight 0 for it; where its value is infinite or NaN, the product of the two
/// is not 0, as it is with `eigen`.
class attention_members : public embedding_members {
 public:
  using embedding_members::embedding_members;
  using heads = head_rows<float>;
  using read_heads = head_rows<float const>;

  /// As of `eigen`.
  void attention_forward(read_heads q, read_heads k, read_heads v, heads y, block<float, 3> log_sum,
                         attention_geometry const& g, bool continued = false, read_heads mask = {}) {
    const index_t rows = log_sum.size();
    if (rows == 0) return;
    if (g.keys == 0) return continued ? void() : nothing_seen(y, log_sum, g);
    const auto scores = masked_scores(q, k, g, mask);
    const auto all = matrices(scores.data, g, g.keys);
    const auto made = scratch(3 * rows);
    const out largest{made.data, {{rows}}};
    const out sum{made.data + rows, {{rows}}};
    const out logs{made.data + 2 * rows, {{rows}}};
    run<TESSERA_ACLNN(Amax)>(all, integers({3}), true, each_row(largest.data, g));
    fill_where_equal(largest, -std::numeric_limits<float>::infinity(), 0);
    run<TESSERA_ACLNN(InplaceSub)>(all, each_row(largest.data, g), number(1.0f));
    run<TESSERA_ACLNN(InplaceExp)>(all);
    run<TESSERA_ACLNN(ReduceSum)>(all, integers({3}), true, ACL_FLOAT, each_row(sum.data, g));
    log(sum, logs);
    add(logs, largest, logs);
    fill_where_equal(sum, 0, 1);  // a row that sees nothing is 0 / 1
    const auto result = scratch(rows * g.value_width);
    if (g.value_width > 0) {
      run<TESSERA_ACLNN(Matmul)>(all, vectors(v, g, g.keys, g.value_width), matrices(result.data, g, g.value_width),
                                 cube());
      run<TESSERA_ACLNN(InplaceDiv)>(matrices(result.data, g, g.value_width), each_row(sum.data, g));
    }
    if (continued) add_earlier(y, {log_sum.data, {{rows}}}, logs, result.data, g);
    copy(logs, out{log_sum.data, {{rows}}});
    if (g.value_width > 0)
      run<TESSERA_ACLNN(InplaceCopy)>(vectors(y, g, g.queries, g.value_width), matrices(result.data, g, g.value_width));
  }
  /// delta = sum of out * dy over each row, for `attention_backward`.
  void attention_delta(read_heads y, read_heads dy, block<float, 3> delta, attention_geometry const& g) {
    if (delta.empty()) return;
    if (g.value_width == 0) return fill_with(delta.data, delta.size(), 0);
    const auto products = scratch(delta.size() * g.value_width);
    const auto all = matrices(products.data, g, g.value_width);
    run<TESSERA_ACLNN(Mul)>(vectors(y, g, g.queries, g.value_width), vectors(dy, g, g.queries, g.value_width), all);
    run<TESSERA_ACLNN(ReduceSum)>(all, integers({3}), true, ACL_FLOAT, each_row(delta.data, g));
  }
  /// Adds the gradients of q, k and v to dq, dk and dv.
  void attention_backward(read_heads q, read_heads k, read_heads v, read_heads dy, block<float const, 3> log_sum,
                          block<float const, 3> delta, heads dq, heads dk, heads dv, attention_geometry const& g,
                          read_heads mask = {}) {
    if (log_sum.empty() || g.keys == 0) return;
    const auto probabilities = masked_scores(q, k, g, mask);
    const auto p = matrices(probabilities.data, g, g.keys);
    const auto of_nothing = scratch<bool>(log_sum.size());
    const auto nothing = each_row(of_nothing.data, g);
    run<TESSERA_ACLNN(EqScalar)>(each_row(log_sum.data, g), number(-std::numeric_limits<float>::infinity()), nothing);
    run<TESSERA_ACLNN(InplaceSub)>(p, each_row(log_sum.data, g), number(1.0f));
    run<TESSERA_ACLNN(InplaceExp)>(p);
    fill_where(p, nothing, 0);
    const auto gradients = scratch(log_sum.size() * g.keys);
    const auto d = matrices(gradients.data, g, g.keys);
    if (g.value_width > 0) {
      const auto of_y = vectors(dy, g, g.queries, g.value_width);
      run<TESSERA_ACLNN(Matmul)>(of_y, transposed(v, g, g.keys, g.value_width), d, cube());
      add_product(transposed_matrices(probabilities.data, g), of_y, dv, g, g.keys, g.value_width);
    } else {
      fill_with(gradients.data, log_sum.size() * g.keys, 0);
    }
    run<TESSERA_ACLNN(InplaceSub)>(d, each_row(delta.data, g), number(1.0f));
    run<TESSERA_ACLNN(InplaceMul)>(d, p);
    run<TESSERA_ACLNN(InplaceMuls)>(d, number(static_cast<float>(g.scale)));
    if (g.width == 0) return;
    add_product(d, vectors(k, g, g.keys, g.width), dq, g, g.queries, g.width);
    add_product(transposed_matrices(gradients.data, g), vectors(q, g, g.queries, g.width), dk, g, g.keys, g.width);
  }
  /// Copies head vectors of the extents [batch, heads, positions, width].
  void copy_heads(read_heads from, heads to, shape<4> const& extents) {
    if (extents.size() == 0) return;
    const auto [batch, of_heads, positions, width] = extents.extents;
    run<TESSERA_ACLNN(InplaceCopy)>(
        view(to.data, {batch, of_heads, positions, width}, {to.batch, to.head, to.row, 1}),
        view(from.data, {batch, of_heads, positions, width}, {from.batch, from.head, from.row, 1}));
  }

 private:
  template <class T>
  static tensor_handle vectors(head_rows<T> of, attention_geometry const& g, index_t count, index_t width) {
    return view(of.data, {g.batch, g.heads, count, width}, {of.batch, of.head, of.row, 1});
  }
  static tensor_handle transposed(read_heads of, attention_geometry const& g, index_t count, index_t width) {
    return view(of.data, {g.batch, g.heads, width, count}, {of.batch, of.head, 1, of.row});
  }
  static tensor_handle matrices(float* data, attention_geometry const& g, index_t columns) {
    return view(data, {g.batch, g.heads, g.queries, columns});
  }
  static tensor_handle transposed_matrices(float* data, attention_geometry const& g) {
    const index_t each = g.queries * g.keys;
    return view(data, {g.batch, g.heads, g.keys, g.queries}, {g.heads * each, each, 1, g.keys});
  }
  template <class T>
  static tensor_handle each_row(T* numbers, attention_geometry const& g) {
    return view(numbers, {g.batch, g.heads, g.queries, 1});
  }
  void fill_where_equal(out y, float value, float by) {
    const auto equal = scratch<bool>(y.size());
    run<TESSERA_ACLNN(EqScalar)>(view(y), number(value), view(equal.data, {y.size()}));
    fill_where(view(y), view(equal.data, {y.size()}), by);
  }
  void nothing_seen(heads y, block<float, 3> log_sum, attention_geometry const& g) {
    fill_with(log_sum.data, log_sum.size(), -std::numeric_limits<float>::infinity());
    if (g.value_width > 0) run<TESSERA_ACLNN(InplaceFillScalar)>(vectors(y, g, g.queries, g.value_width), number(0.0f));
  }
  /// scale * q k^T + mask, minus infinity where a key is hidden.
  temporary<float> masked_scores(read_heads q, read_heads k, attention_geometry const& g, read_heads mask) {
    const index_t count = g.batch * g.heads * g.queries * g.keys;
    constexpr float hidden = -std::numeric_limits<float>::infinity();
    auto made = scratch(count);
    const auto scores = matrices(made.data, g, g.keys);
    if (g.width > 0) {
      run<TESSERA_ACLNN(Matmul)>(vectors(q, g, g.queries, g.width), transposed(k, g, g.keys, g.width), scores, cube());
      run<TESSERA_ACLNN(InplaceMuls)>(scores, number(static_cast<float>(g.scale)));
    } else {
      fill_with(made.data, count, 0);
    }
    if (mask.data != nullptr) {
      const auto added =
          view(mask.data + g.first_key, {g.batch, g.heads, g.queries, g.keys}, {mask.batch, mask.head, mask.row, 1});
      const auto hides = scratch<bool>(count);
      const auto where = view(hides.data, {g.batch, g.heads, g.queries, g.keys});
      run<TESSERA_ACLNN(InplaceAdd)>(scores, added, number(1.0f));
      run<TESSERA_ACLNN(EqScalar)>(added, number(hidden), where);
      fill_where(scores, where, hidden);
    }
    if (g.causal && g.seen(0) < g.keys) {
      const auto positions = scratch<std::int32_t>(g.keys + g.queries + g.queries * g.keys);
      const auto later = scratch<bool>(g.queries * g.keys);
      const auto numbered = [&](std::int32_t* data, index_t n) {
        run<TESSERA_ACLNN(Arange)>(number(index_t{0}), number(n), number(index_t{1}), view(data, {n}));
      };
      std::int32_t* const distances = positions.data + g.keys + g.queries;
      numbered(positions.data, g.keys);
      numbered(positions.data + g.keys, g.queries);
      const auto distance = view(distances, {g.queries, g.keys});
      run<TESSERA_ACLNN(Sub)>(view(positions.data, {1, g.keys}), view(positions.data + g.keys, {g.queries, 1}),
                              number(std::int32_t{1}), distance);
      run<TESSERA_ACLNN(GtScalar)>(distance, number(static_cast<std::int32_t>(g.first_query - g.first_key)),
                                   view(later.data, {g.queries, g.keys}));
      fill_where(scores, view(later.data, {1, 1, g.queries, g.keys}), hidden);
    }
    return made;
  }
  /// result and logs = those over these keys and over the earlier ones, which y and `earlier` hold.
  void add_earlier(heads y, in earlier, out logs, float* result, attention_geometry const& g) {
    const index_t rows = logs.size();
    const auto made = scratch(3 * rows);
    const out most{made.data, {{rows}}};
    const out before{made.data + rows, {{rows}}};
    const out now{made.data + 2 * rows, {{rows}}};
    run<TESSERA_ACLNN(Maximum)>(view(earlier), view(logs), view(most));
    fill_where_equal(most, -std::numeric_limits<float>::infinity(), 0);
    sub(earlier, most, before);
    exp(before, before);
    sub(logs, most, now);
    exp(now, now);
    add(before, now, logs);  // the sum, first
    if (g.value_width > 0) {
      const auto sums = scratch(rows);
      const auto weighted = scratch(rows * g.value_width);
      const auto all = matrices(result, g, g.value_width);
      const auto old = matrices(weighted.data, g, g.value_width);
      copy(logs, out{sums.data, {{rows}}});
      fill_where_equal({sums.data, {{rows}}}, 0, 1);
      run<TESSERA_ACLNN(Mul)>(vectors(y, g, g.queries, g.value_width), each_row(before.data, g), old);
      run<TESSERA_ACLNN(InplaceMul)>(all, each_row(now.data, g));
      run<TESSERA_ACLNN(InplaceAdd)>(all, old, number(1.0f));
      run<TESSERA_ACLNN(InplaceDiv)>(all, each_row(sums.data, g));
    }
    log(logs, logs);
    add(logs, most, logs);
  }
  /// to += a b, of vectors that lie apart.
  void add_product(tensor_handle const& a, tensor_handle const& b, heads to, attention_geometry const& g, index_t count,
                   index_t width) {
    const auto product = scratch(g.batch * g.heads * count * width);
    const auto made = view(product.data, {g.batch, g.heads, count, width});
    run<TESSERA_ACLNN(Matmul)>(a, b, made, cube());
    run<TESSERA_ACLNN(InplaceAdd)>(vectors(to, g, count, width), made, number(1.0f));
  }
};

}  // namespace tessera::detail::ascend_kernels
