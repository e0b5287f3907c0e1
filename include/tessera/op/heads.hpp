#pragma once

#include <tessera/op/rules.hpp>

namespace tessera {

namespace detail {

/// Index rules of projections to and from heads. b samples, s positions, f features of the model, p projections side by
/// side (query, key, value), h heads, d features of a head, k features of a head times features of the model.
constexpr index_rules head_rules(std::string_view spec, linearity partial) {
  return {spec, {{'b', "batch"}, {'s', "sequence"}, {'h', "heads"}}, partial};
}
struct to_heads_op {
  static constexpr index_rules rules = head_rules("bsf,phk->bsphd", linearity::each);
};
struct to_heads_input_gradient_op {
  static constexpr index_rules rules = head_rules("bsphd,phk->bsf", linearity::each);
};
struct to_heads_weight_gradient_op {
  static constexpr index_rules rules = head_rules("bsphd,bsf->phk", linearity::each);
};
struct head_bias_op {
  static constexpr index_rules rules = head_rules("bsphd,phd->bsphd", linearity::none);
};
struct head_bias_gradient_op {
  static constexpr index_rules rules = head_rules("bsphd->phd", linearity::each);
};
struct from_heads_op {
  static constexpr index_rules rules = head_rules("bsphd,fhd->bsf", linearity::each);
};
struct from_heads_input_gradient_op {
  static constexpr index_rules rules = head_rules("bsf,fhd->bsphd", linearity::each);
};
struct from_heads_weight_gradient_op {
  static constexpr index_rules rules = head_rules("bsf,bsphd->fhd", linearity::each);
};

/// The rows of a block whose last `Columns` dimensions are one.
template <int Columns, class T, int Rank, storage_order Order>
constexpr block<T, 2, Order> rows_of(block<T, Rank, Order> b) {
  static_assert(Rank != 4, "tessera: blocks of rank 4 may lie channels last; use another rank");
  shape<2> s{{1, 1}};
  for (int d = 0; d < Rank; ++d) s[d < Rank - Columns ? 0 : 1] *= b.extents[d];
  return {b.data, s};
}

/// The features of a head of a weight [P, H, D * F].
template <sharded_tensor W>
index_t head_width(W const& w, index_t features) {
  const index_t width = features == 0 ? 0 : w.extent(2) / features;
  require_extent(w.extent(2), width * features, "extent of a head's rows in the weight of to_heads");
  return width;
}

}  // namespace detail

namespace op {

// Heads are a dimension of their own, so that a cut of heads is a cut of that dimension. In memory the tensors are the
// matrices that they would be without it: a weight [P, H, D * F] is [P * H * D, F], one of [F, H, D] is [F, H * D].

/// P projections of x [B, S, F] to H heads side by side: [B, S, P, H, D] from a weight [P, H, D * F].
///
/// Splits: batch and sequence of x, heads of w. One operand may be a partial sum. No collectives.
template <sharded_tensor X, sharded_tensor W>
auto to_heads(X const& x, W const& w) {
  static_assert(X::rank == 3 && W::rank == 3,
                "tessera: to_heads takes an input [B, S, F] and a weight [P, H, D * F]; reshape them first");
  const index_t width = detail::head_width(w, x.extent(2));
  result_of<detail::to_heads_op, 5, X, W> y(x.where(), {{x.extent(0), x.extent(1), w.extent(0), w.extent(1), width}});
  const auto weight = detail::rows_of<1>(w.read());
  x.where().kernels().matmul(detail::rows_of<1>(x.read()), false,
                             reinterpret_shape(weight, shape<2>{{weight.extents[0] * width, x.extent(2)}}), true,
                             detail::rows_of<3>(y.write()));
  return y;
}

/// Gradient of `to_heads` with respect to x. Partial along axes that cut heads.
template <sharded_tensor Dy, sharded_tensor W>
auto to_heads_backward_input(Dy const& dy, W const& w) {
  const index_t features = dy.extent(4) == 0 ? 0 : w.extent(2) / dy.extent(4);
  result_of<detail::to_heads_input_gradient_op, 3, Dy, W> dx(dy.where(), {{dy.extent(0), dy.extent(1), features}});
  const auto weight = detail::rows_of<1>(w.read());
  dy.where().kernels().matmul(detail::rows_of<3>(dy.read()), false,
                              reinterpret_shape(weight, shape<2>{{weight.extents[0] * dy.extent(4), features}}), false,
                              detail::rows_of<1>(dx.write()));
  return dx;
}

/// Gradient of `to_heads` with respect to w, written into `dw`. Partial along axes that cut batch or sequence.
template <sharded_tensor Dy, sharded_tensor X, sharded_tensor Dw>
void to_heads_backward_weight(Dy const& dy, X const& x, Dw& dw) {
  detail::check_target<result_of<detail::to_heads_weight_gradient_op, 3, Dy, X>, Dw>();
  const auto weight = detail::rows_of<1>(dw.write());
  x.where().kernels().matmul(detail::rows_of<3>(dy.read()), true, detail::rows_of<1>(x.read()), false,
                             reinterpret_shape(weight, shape<2>{{weight.extents[0] * dy.extent(4), x.extent(2)}}));
}

/// y [B, S, P, H, D] += bias [P, H, D], in place.
template <sharded_tensor Y, sharded_tensor B>
void add_head_bias(Y& y, B const& bias) {
  using result [[maybe_unused]] = result_of<detail::head_bias_op, 5, Y, B>;
  detail::require_shape(bias.extents(), shape<3>{{y.extent(2), y.extent(3), y.extent(4)}}, "the bias of heads");
  y.where().kernels().add_bias(detail::rows_of<3>(y.write()),
                               block<typename B::value_type const, 1>({bias.read().data, {{bias.read().size()}}}));
}

/// Gradient of such a bias, written into `db`. Partial along axes that cut batch or sequence.
template <sharded_tensor Dy, sharded_tensor Db>
void head_bias_backward(Dy const& dy, Db& db) {
  detail::check_target<result_of<detail::head_bias_gradient_op, 3, Dy>, Db>();
  dy.where().kernels().sum_rows(detail::rows_of<3>(dy.read()),
                                reinterpret_shape(db.write(), shape<1>{{db.write().size()}}));
}

/// y [B, S, F] from heads [B, S, 1, H, D] and a weight [F, H, D]: partial along axes that cut heads.
///
/// Splits: batch, sequence, heads of both (partial result). One operand may be a partial sum. No collectives.
template <sharded_tensor X, sharded_tensor W>
auto from_heads(X const& x, W const& w) {
  static_assert(X::rank == 5 && W::rank == 3,
                "tessera: from_heads takes heads [B, S, 1, H, D] and a weight [F, H, D]; reshape them first");
  detail::require_shape(x.extents(), shape<5>{{x.extent(0), x.extent(1), 1, w.extent(1), w.extent(2)}},
                        "the input of from_heads");
  result_of<detail::from_heads_op, 3, X, W> y(x.where(), {{x.extent(0), x.extent(1), w.extent(0)}});
  x.where().kernels().matmul(detail::rows_of<3>(x.read()), false, detail::rows_of<2>(w.read()), true,
                             detail::rows_of<1>(y.write()));
  return y;
}

/// Gradient of `from_heads` with respect to the heads.
template <sharded_tensor Dy, sharded_tensor W>
auto from_heads_backward_input(Dy const& dy, W const& w) {
  result_of<detail::from_heads_input_gradient_op, 5, Dy, W> dx(
      dy.where(), {{dy.extent(0), dy.extent(1), 1, w.extent(1), w.extent(2)}});
  dy.where().kernels().matmul(detail::rows_of<1>(dy.read()), false, detail::rows_of<2>(w.read()), false,
                              detail::rows_of<3>(dx.write()));
  return dx;
}

/// Gradient of `from_heads` with respect to w, written into `dw`. Partial along axes that cut batch or sequence.
template <sharded_tensor Dy, sharded_tensor X, sharded_tensor Dw>
void from_heads_backward_weight(Dy const& dy, X const& x, Dw& dw) {
  detail::check_target<result_of<detail::from_heads_weight_gradient_op, 3, Dy, X>, Dw>();
  x.where().kernels().matmul(detail::rows_of<1>(dy.read()), true, detail::rows_of<3>(x.read()), false,
                             detail::rows_of<2>(dw.write()));
}

}  // namespace op

}  // namespace tessera
