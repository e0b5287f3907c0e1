#pragma once

#include <tessera/op/attention_local.hpp>
#include <tessera/op/attention_mask.hpp>
#include <tessera/op/rules.hpp>

namespace tessera {

/// Settings of attention.
struct attention_options {
  bool causal = false;  ///< position i sees positions j <= i
  double scale = 0;     ///< of the scores; 0 for 1 / sqrt(width)
};

/// The result of attention, and what backward needs of the scores: the logarithm of the sum of exponentials of each row
/// of this rank, [batch, heads, queries].
template <sharded_tensor Out>
struct attention_result {
  Out out;
  detail::statistics_tensor<typename Out::context_type, 3> log_sum;
};

/// Gradients of the three operands.
template <sharded_tensor Q, sharded_tensor K, sharded_tensor V>
struct attention_gradients {
  Q q;
  K k;
  V v;
};

namespace detail {

/// Index rules of attention. b samples, h heads, s positions of queries, t of keys, d and e features, p the only
/// projection. In a ring keys are cut as queries are, and positions of both have the letter s.
template <int Rank, bool Ring>
struct attention_op {
  static constexpr std::string_view spec = Rank == 4 ? (Ring ? "bhsd,bhsd,bhse->bhse" : "bhsd,bhtd,bhte->bhse")
                                                     : (Ring ? "bsphd,bsphd,bsphe->bsphe" : "bsphd,btphd,btphe->bsphe");
  static constexpr index_rules rules{spec, {{'b', "batch"}, {'h', "heads"}, {'s', "sequence"}}};
};
/// The gradient of queries from dy and q; of keys and values likewise, partial where only the queries are cut.
template <int Rank, bool Ring>
struct attention_gradient_op {
  static constexpr std::string_view spec =
      Rank == 4 ? (Ring ? "bhse,bhsd->bhsd" : "bhse,bhtd->bhtd") : (Ring ? "bsphe,bsphd->bsphd" : "bsphe,btphd->btphd");
  static constexpr index_rules rules{spec, {{'b', "batch"}, {'h', "heads"}, {'s', "sequence"}}};
};
struct fused_attention_op {
  static constexpr index_rules rules{"bsphd->bsphd", {{'b', "batch"}, {'h', "heads"}, {'s', "sequence"}}};
};

/// Whether some axis cuts the positions of keys.
template <sharded_tensor K>
inline constexpr bool in_ring = K::placements.shard_axes(head_dims<K::rank>::sequence) != 0;

template <sharded_tensor Q, sharded_tensor K, sharded_tensor V>
void check_attention(Q const& q, K const& k, V const& v) {
  using dims = head_dims<Q::rank>;
  static_assert(Q::rank == K::rank && Q::rank == V::rank,
                "tessera: the operands of attention have different ranks; reshape them to [B, H, S, D]");
  require_extent(k.extent(dims::batch), q.extent(dims::batch), "number of samples of the keys of attention");
  require_extent(v.extent(dims::batch), q.extent(dims::batch), "number of samples of the values of attention");
  require_extent(k.extent(dims::heads), q.extent(dims::heads), "number of heads of the keys of attention");
  require_extent(v.extent(dims::heads), q.extent(dims::heads), "number of heads of the values of attention");
  require_extent(v.extent(dims::sequence), k.extent(dims::sequence), "number of values of attention");
  require_extent(k.extent(dims::width), q.extent(dims::width), "width of the keys of attention");
  if constexpr (Q::rank == 5)
    for (const index_t projections : {q.extent(2), k.extent(2), v.extent(2)})
      require_extent(projections, 1, "number of projections in an operand of attention");
}

/// The extents of `x` with another width, or another number of projections.
template <int Rank>
shape<Rank> with_extent(shape<Rank> extents, int dim, index_t extent) {
  extents[dim] = extent;
  return extents;
}

/// Forward with the rows of a mask for this rank's queries, if there is one.
template <sharded_tensor Q, sharded_tensor K, sharded_tensor V>
auto attention(Q const& q, K const& k, V const& v, head_operand<typename Q::value_type> mask,
               attention_options const& options) {
  using dims = head_dims<Q::rank>;
  using out_type = tessera::result_of<attention_op<Q::rank, in_ring<K>>, Q::rank, Q, K, V>;
  check_attention(q, k, v);
  attention_result<out_type> r{out_type(q.where(), with_extent(q.extents(), dims::width, v.extent(dims::width))), {}};
  const read_heads query(q);
  const read_heads key(k);
  const read_heads value(v);
  const written_heads out(r.out);
  r.log_sum = attend<Q, K>(q.where(), query.rows(), key.rows(), value.rows(), out.rows(),
                           geometry_of(q, k, v.extent(dims::width), options.causal, options.scale), q.extents(),
                           k.extents(), mask);
  out.finish(r.out);
  return r;
}

template <sharded_tensor Q, sharded_tensor K, sharded_tensor V, sharded_tensor Out, sharded_tensor Dy>
auto attention_backward(Q const& q, K const& k, V const& v, head_operand<typename Q::value_type> mask,
                        attention_result<Out> const& result, Dy const& dy, attention_options const& options) {
  using dims = head_dims<Q::rank>;
  using key_gradient_op = attention_gradient_op<Q::rank, in_ring<K>>;
  check_attention(q, k, v);
  require_shape(dy.extents(), result.out.extents(), "the gradient of attention");
  attention_gradients<tessera::result_of<attention_gradient_op<Q::rank, true>, Q::rank, Dy, Q>,
                      tessera::result_of<key_gradient_op, Q::rank, Dy, K>,
                      tessera::result_of<key_gradient_op, Q::rank, Dy, V>>
      d{{q.where(), q.extents()}, {q.where(), k.extents()}, {q.where(), v.extents()}};
  const read_heads query(q);
  const read_heads key(k);
  const read_heads value(v);
  const read_heads out(result.out);
  const read_heads upstream(dy);
  const written_heads dq(d.q);
  const written_heads dk(d.k);
  const written_heads dv(d.v);
  attend_backward<Q, K>(q.where(), query.rows(), key.rows(), value.rows(), out.rows(), upstream.rows(), result.log_sum,
                        dq.rows(), dk.rows(), dv.rows(),
                        geometry_of(q, k, v.extent(dims::width), options.causal, options.scale), q.extents(),
                        k.extents(), mask);
  dq.finish(d.q);
  dk.finish(d.k);
  dv.finish(d.v);
  return d;
}

}  // namespace detail

namespace op {

/// softmax(scale * q k^T) v: q [B, H, S, D], k [B, H, T, D], v [B, H, T, E], the result [B, H, S, E]; or the same as
/// [B, S, 1, H, D], which is how `to_heads` gives them and kernels read them without a copy. A query that sees no key
/// gives zeros.
///
/// Memory is linear in S and T: scores exist tile by tile (T. Dao, D. Fu, S. Ermon, A. Rudra and C. Re, 2022). Splits:
/// batch and heads; positions of q alone, which leaves the gradients of k and v partial; or positions of q, k and v by
/// the same axes. Then keys and values go around those axes as in `ring_plan` while each rank works on the block that
/// it has (H. Liu, M. Zaharia and P. Abbeel, 2023), and no block that a causal mask rules out is sent. Otherwise
/// nothing is sent. A partial operand does not compile.
template <sharded_tensor Q, sharded_tensor K, sharded_tensor V>
auto scaled_dot_product_attention(Q const& q, K const& k, V const& v, attention_options const& options = {}) {
  return detail::attention(q, k, v, {}, options);
}

/// The same with a mask [S, T] or [B or 1, H or 1, S, T] that is added to the scores: minus infinity hides a key from a
/// query, and what is hidden, by it or by `causal`, adds nothing whatever it holds. The mask is a constant: it gets no
/// gradient. Each of its dimensions is whole or cut like that of the queries; those of the keys are together, in a ring
/// too.
template <sharded_tensor Q, sharded_tensor K, sharded_tensor V, sharded_tensor M>
auto scaled_dot_product_attention(Q const& q, K const& k, V const& v, M const& mask,
                                  attention_options const& options = {}) {
  const detail::mask_rows<Q, M> rows(q, k.extent(detail::head_dims<K::rank>::sequence), mask);
  return detail::attention(q, k, v, rows.rows(), options);
}

/// Gradients of `scaled_dot_product_attention`, from its result. In a ring the gradients of keys and values go around
/// as keys and values do; otherwise nothing is sent.
template <sharded_tensor Q, sharded_tensor K, sharded_tensor V, sharded_tensor Out, sharded_tensor Dy>
auto scaled_dot_product_attention_backward(Q const& q, K const& k, V const& v, attention_result<Out> const& result,
                                           Dy const& dy, attention_options const& options = {}) {
  return detail::attention_backward(q, k, v, {}, result, dy, options);
}

/// The same with the mask of the forward pass.
template <sharded_tensor Q, sharded_tensor K, sharded_tensor V, sharded_tensor M, sharded_tensor Out, sharded_tensor Dy>
auto scaled_dot_product_attention_backward(Q const& q, K const& k, V const& v, M const& mask,
                                           attention_result<Out> const& result, Dy const& dy,
                                           attention_options const& options = {}) {
  const detail::mask_rows<Q, M> rows(q, k.extent(detail::head_dims<K::rank>::sequence), mask);
  return detail::attention_backward(q, k, v, rows.rows(), result, dy, options);
}

/// Self-attention of queries, keys and values that lie side by side: [B, S, 3, H, D] to [B, S, 1, H, D].
///
/// Splits: batch and heads; positions, as a ring.
template <sharded_tensor X>
auto scaled_dot_product_attention(X const& qkv, attention_options const& options = {}) {
  static_assert(X::rank == 5, "tessera: attention of one operand takes [B, S, 3, H, D], as to_heads gives it");
  using out_type = result_of<detail::fused_attention_op, 5, X>;
  detail::require_extent(qkv.extent(2), 3, "number of projections of self-attention");
  attention_result<out_type> r{out_type(qkv.where(), detail::with_extent(qkv.extents(), 2, 1)), {}};
  const detail::read_heads in(qkv);
  const detail::written_heads out(r.out);
  r.log_sum = detail::attend<X, X>(qkv.where(), in.rows(0), in.rows(1), in.rows(2), out.rows(),
                                   detail::geometry_of(qkv, qkv, qkv.extent(4), options.causal, options.scale),
                                   qkv.extents(), qkv.extents());
  return r;
}

/// Gradient of self-attention of one operand, from its result.
template <sharded_tensor X, sharded_tensor Out, sharded_tensor Dy>
auto scaled_dot_product_attention_backward(X const& qkv, attention_result<Out> const& result, Dy const& dy,
                                           attention_options const& options = {}) {
  static_assert(std::is_same_v<Out, Dy>,
                "tessera: the gradient of attention is not laid out as its result; bring it there with x | "
                "tessera::to<...>");
  detail::require_shape(dy.extents(), result.out.extents(), "the gradient of attention");
  X dx(qkv.where(), qkv.extents());
  const detail::read_heads in(qkv);
  const detail::read_heads out(result.out);
  const detail::read_heads upstream(dy);
  const detail::written_heads to(dx);
  detail::attend_backward<X, X>(qkv.where(), in.rows(0), in.rows(1), in.rows(2), out.rows(), upstream.rows(),
                                result.log_sum, to.rows(0), to.rows(1), to.rows(2),
                                detail::geometry_of(qkv, qkv, qkv.extent(4), options.causal, options.scale),
                                qkv.extents(), qkv.extents());
  return dx;
}

}  // namespace op

}  // namespace tessera
