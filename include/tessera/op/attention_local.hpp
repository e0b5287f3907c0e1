#pragma once

#include <tessera/backend/attention.hpp>
#include <tessera/backend/transfer.hpp>
#include <tessera/core/sharded.hpp>
#include <tessera/op/rules.hpp>
#include <tessera/redistribute/ring.hpp>

#include <cmath>
#include <utility>

namespace tessera::detail {

/// Which dimension of a tensor of heads is which.
template <int Rank>
struct head_dims {
  static_assert(Rank == 4,
                "tessera: attention takes tensors [B, H, S, D], or [B, S, 1, H, D] as to_heads gives them; reshape the "
                "operands first");
};
template <>
struct head_dims<4> {
  static constexpr int batch = 0, heads = 1, sequence = 2, width = 3;
};
template <>
struct head_dims<5> {
  static constexpr int batch = 0, sequence = 1, heads = 3, width = 4;
};

/// The vectors of the first projection of a block [B, S, P, H, D].
template <class T, storage_order Order>
constexpr head_rows<T> first_projection(block<T, 5, Order> b) {
  const auto strides = strides_of<Order>(b.extents);
  return {b.data, strides[0], strides[3], strides[1]};
}

/// The head vectors of an operand. In memory those of rank 4 may have the heads innermost, so they are put in order.
template <sharded_tensor X>
class read_heads {
 public:
  explicit read_heads(X const& x) {
    if constexpr (X::rank == 4) {
      const shape<4> s = x.local().extents();
      ordered_ = memory(shape<2>{{s[0], s[1] * s[2] * s[3]}});
      x.where().kernels().flatten(x.read(), ordered_.view());
      rows_ = packed_heads(std::as_const(ordered_).data(), s[1], s[2], s[3]);
    } else {
      rows_ = first_projection(x.read());
      projection_ = x.local().extent(3) * x.local().extent(4);
    }
  }
  head_rows<typename X::value_type const> rows(index_t projection = 0) const {
    return {rows_.data + projection * projection_, rows_.batch, rows_.head, rows_.row};
  }

 private:
  using memory = tensor<typename X::value_type, 2, typename X::context_type::backend::memory>;
  memory ordered_{};
  head_rows<typename X::value_type const> rows_{};
  index_t projection_ = 0;
};

/// Where kernels write the head vectors of a result; `finish` puts them into it. They are zeros at first.
template <sharded_tensor X>
class written_heads {
 public:
  using value_type = typename X::value_type;

  explicit written_heads(X& x) {
    if constexpr (X::rank == 4) {
      const shape<4> s = x.local().extents();
      ordered_ = filled<memory>(x.where().kernels(), {{s[0], s[1] * s[2] * s[3]}}, value_type{0});
      rows_ = packed_heads(ordered_.data(), s[1], s[2], s[3]);
    } else {
      x.where().kernels().fill(block<value_type, 1>{x.write().data, {{x.local().size()}}}, value_type{0});
      rows_ = first_projection(x.write());
      projection_ = x.local().extent(3) * x.local().extent(4);
    }
  }
  head_rows<value_type> rows(index_t projection = 0) const {
    return {rows_.data + projection * projection_, rows_.batch, rows_.head, rows_.row};
  }
  void finish(X& x) const {
    if constexpr (X::rank == 4) x.where().kernels().unflatten(ordered_.read(), x.write());
  }

 private:
  using memory = tensor<value_type, 2, typename X::context_type::backend::memory>;
  memory ordered_{};
  head_rows<value_type> rows_{};
  index_t projection_ = 0;
};

/// This rank's share of attention.
template <sharded_tensor Q, sharded_tensor K>
attention_geometry geometry_of(Q const& q, K const& k, index_t value_width, bool causal, double scale) {
  using dims = head_dims<Q::rank>;
  const auto queries = q.part();
  const auto keys = k.part();
  const index_t width = q.extent(dims::width);
  return {queries[dims::batch].size,
          queries[dims::heads].size,
          queries[dims::sequence].size,
          keys[dims::sequence].size,
          width,
          value_width,
          queries[dims::sequence].begin,
          keys[dims::sequence].begin,
          causal,
          scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(width))};
}

/// The same of one head of one sample and other keys.
constexpr attention_geometry one_head(attention_geometry g, interval keys) {
  g.batch = g.heads = 1;
  g.keys = keys.size;
  g.first_key = keys.begin;
  return g;
}

/// Keys and values as they travel: all keys, then all values.
template <class T>
struct key_values {
  head_rows<T> keys;
  head_rows<T> values;

  key_values(T* data, attention_geometry const& g, index_t positions)
      : keys(packed_heads(data, g.heads, positions, g.width)),
        values(packed_heads(data + g.batch * g.heads * positions * g.width, g.heads, positions, g.value_width)) {}
};
/// Elements that travel for each position.
constexpr index_t elements_of(attention_geometry const& g) { return g.batch * g.heads * (g.width + g.value_width); }

/// The numbers of the rows of one head.
template <class T>
constexpr block<T, 3> head_of(block<T, 3> rows, index_t b, index_t h) {
  return {rows.data + (b * rows.extents[1] + h) * rows.extents[2], {{1, 1, rows.extents[2]}}};
}

/// Calls `with(sample, head)` for each head.
template <class With>
void for_heads(attention_geometry const& g, With with) {
  for (index_t b = 0; b < g.batch; ++b)
    for (index_t h = 0; h < g.heads; ++h) with(b, h);
}

template <class T, class Context>
auto packed_key_values(Context& context, head_rows<T const> k, head_rows<T const> v, attention_geometry const& g) {
  ring_memory<Context, T> packed(shape<1>{{g.keys * elements_of(g)}});
  const key_values<T> to(packed.data(), g, g.keys);
  context.kernels().copy_heads(k, to.keys, shape<4>{{g.batch, g.heads, g.keys, g.width}});
  context.kernels().copy_heads(v, to.values, shape<4>{{g.batch, g.heads, g.keys, g.value_width}});
  return packed;
}

/// The axes that cut the positions of keys, so that these travel.
template <sharded_tensor K>
inline constexpr axis_set ring_axes = K::mesh::cutting(K::placements.shard_axes(head_dims<K::rank>::sequence));

template <sharded_tensor Q, sharded_tensor K>
ring_plan ring_of(typename Q::context_type& context, shape<Q::rank> const& q, shape<K::rank> const& k, bool causal) {
  using mesh = typename Q::mesh;
  const auto at = context.coordinates();
  return {parts_along<mesh>(head_dims<Q::rank>::sequence, Q::placements, q, at),
          parts_along<mesh>(head_dims<K::rank>::sequence, K::placements, k, at), causal};
}

/// Attention of this rank's queries to the keys of all ranks. `Q` and `K` are the tensors that the rows are of,
/// `q_whole` and `k_whole` their extents.
template <sharded_tensor Q, sharded_tensor K, class T>
auto attend(typename Q::context_type& context, head_rows<T const> q, head_rows<T const> k, head_rows<T const> v,
            head_rows<T> out, attention_geometry const& g, shape<Q::rank> const& q_whole, shape<K::rank> const& k_whole,
            head_operand<T> mask = {}) {
  using context_type = typename Q::context_type;
  statistics_tensor<context_type, 3> log_sum(shape<3>{{g.batch, g.heads, g.queries}});
  auto& kernels = context.kernels();
  if constexpr (ring_axes<K> == 0) {
    kernels.attention_forward(q, k, v, out, log_sum.view(), g, false, mask);
  } else {
    const ring_plan plan = ring_of<Q, K>(context, q_whole, k_whole, g.causal);
    ring_blocks<context_type, T> blocks(context, ring_axes<K>, plan, packed_key_values(context, k, v, g),
                                        elements_of(g));
    bool continued = false;
    do {
      const interval keys = plan.keys(blocks.owner());
      const key_values<T const> here(blocks.data(), g, keys.size);
      for_heads(g, [&](index_t b, index_t h) {
        kernels.attention_forward(q.one(b, h), here.keys.one(b, h), here.values.one(b, h), out.one(b, h),
                                  head_of(log_sum.view(), b, h), one_head(g, keys), continued, mask.one(b, h));
        blocks.test();
      });
      continued = true;
    } while (blocks.advance());
  }
  return log_sum;
}

/// Gradients of that, added to dq, dk and dv, which are zeros.
template <sharded_tensor Q, sharded_tensor K, class T, class Rows>
void attend_backward(typename Q::context_type& context, head_rows<T const> q, head_rows<T const> k,
                     head_rows<T const> v, head_rows<T const> out, head_rows<T const> dy, Rows const& log_sum,
                     head_rows<T> dq, head_rows<T> dk, head_rows<T> dv, attention_geometry const& g,
                     shape<Q::rank> const& q_whole, shape<K::rank> const& k_whole, head_operand<T> mask = {}) {
  using context_type = typename Q::context_type;
  Rows delta(log_sum.extents());
  auto& kernels = context.kernels();
  kernels.attention_delta(out, dy, delta.view(), g);
  if constexpr (ring_axes<K> == 0) {
    kernels.attention_backward(q, k, v, dy, log_sum.read(), delta.read(), dq, dk, dv, g, mask);
  } else {
    const ring_plan plan = ring_of<Q, K>(context, q_whole, k_whole, g.causal);
    const index_t elements = elements_of(g);
    ring_blocks<context_type, T> blocks(context, ring_axes<K>, plan, packed_key_values(context, k, v, g), elements);
    ring_gradients<context_type, T> gradients(context, ring_axes<K>, plan, elements);
    const auto gradient_of_block = [&] {
      const interval keys = plan.keys(blocks.owner());
      const key_values<T const> here(blocks.data(), g, keys.size);
      auto gradient = filled<ring_memory<context_type, T>>(kernels, {{keys.size * elements}}, T{0});
      const key_values<T> to(gradient.data(), g, keys.size);
      for_heads(g, [&](index_t b, index_t h) {
        kernels.attention_backward(q.one(b, h), here.keys.one(b, h), here.values.one(b, h), dy.one(b, h),
                                   head_of(log_sum.read(), b, h), head_of(delta.read(), b, h), dq.one(b, h),
                                   to.keys.one(b, h), to.values.one(b, h), one_head(g, keys), mask.one(b, h));
        blocks.test();
      });
      return gradient;
    };
    auto own = gradient_of_block();
    while (blocks.advance()) {
      gradients.expect(blocks.owner());
      gradients.pass(blocks.owner(), gradient_of_block());
    }
    gradients.finish(own);
    const key_values<T> whole(own.data(), g, g.keys);
    kernels.copy_heads(whole.keys, dk, shape<4>{{g.batch, g.heads, g.keys, g.width}});
    kernels.copy_heads(whole.values, dv, shape<4>{{g.batch, g.heads, g.keys, g.value_width}});
  }
}

}  // namespace tessera::detail
