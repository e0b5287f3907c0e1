#pragma once

#include <tessera/op/rules.hpp>

namespace tessera {

namespace detail {

template <bool TransposeA, bool TransposeB>
struct matmul_op {
  static constexpr std::string_view spec =
      TransposeA ? (TransposeB ? "km,nk->mn" : "km,kn->mn") : (TransposeB ? "mk,nk->mn" : "mk,kn->mn");
  static constexpr index_rules rules{spec, {{'m', "batch"}, {'n', "output"}, {'k', "input"}}, linearity::each};
};

/// Index rules of products over the last dimension of an input of any rank: `rows` stands for its leading letters.
template <int Rank>
struct linear_letters {
  static constexpr std::string_view all = "abde";
  static_assert(Rank >= 1 && Rank != 4 && Rank <= 5,
                "tessera: linear takes inputs of 1, 2, 3 or 5 dimensions; flatten images first");
  static constexpr std::string_view rows = all.substr(0, Rank - 1);
  static constexpr std::string_view words[4] = {"batch", "rows", "dim2", "dim3"};

  /// `spec` with `*` replaced by the leading letters.
  static constexpr index_rules expand(std::string_view spec, linearity partial) {
    index_rules r("", {}, partial);
    for (const char c : spec) {
      if (c != '*') {
        r.text[r.length++] = c;
      } else {
        for (const char letter : rows) r.text[r.length++] = letter;
      }
    }
    for (int i = 0; i < Rank - 1; ++i) r.cuts[r.count++] = {all[static_cast<std::size_t>(i)], words[i]};
    r.cuts[r.count++] = {'o', "output", false};
    r.cuts[r.count++] = {'k', "input", false};
    return r;
  }
};

template <int Rank>
struct linear_op {
  static constexpr index_rules rules = linear_letters<Rank>::expand("*k,ok->*o", linearity::each);
};
template <int Rank>
struct linear_input_gradient_op {
  static constexpr index_rules rules = linear_letters<Rank>::expand("*o,ok->*k", linearity::each);
};
template <int Rank>
struct linear_weight_gradient_op {
  static constexpr index_rules rules = linear_letters<Rank>::expand("*o,*k->ok", linearity::each);
};

inline constexpr std::string_view add_bias_spec[] = {"",           "n,n->n",       "nc,c->nc",
                                                     "nch,h->nch", "nchw,c->nchw", "nchwd,d->nchwd"};
inline constexpr std::string_view bias_gradient_spec[] = {"", "n->n", "nc->c", "nch->h", "nchw->c", "nchwd->d"};

/// Bias along dimension 1 of images, along the last dimension of everything else; every dimension may be cut.
constexpr index_rules bias_rules(int rank, std::string_view spec, linearity partial) {
  index_rules r(spec, {}, partial);
  for (int d = 0; d < rank; ++d) r.cuts[r.count++] = {spec[static_cast<std::size_t>(d)], "any"};
  return r;
}
template <int Rank, int BiasRank>
struct bias_op {
  static_assert(BiasRank == 1, "tessera: a bias has one dimension; reshape it first");
  static constexpr index_rules rules = bias_rules(Rank, add_bias_spec[Rank], linearity::none);
};
template <int Rank>
struct bias_gradient_op {
  static constexpr index_rules rules = bias_rules(Rank, bias_gradient_spec[Rank], linearity::each);
};

template <sharded_tensor Y, sharded_tensor B>
void check_bias(Y const& y, B const& bias) {
  require_extent(bias.extent(0), y.extent(Y::rank == 4 ? 1 : Y::rank - 1), "extent of the bias");
}

/// Whether the features of a block do not lie innermost: those of images with channels first.
template <int Rank, storage_order Order>
inline constexpr bool features_outside = Rank == 4 && Order == storage_order::row_major;
template <class T>
constexpr block<T, 6> in_six_dims(block<T, 4, storage_order::row_major> images) {
  shape<4> const& s = images.extents;
  return {images.data, {{1, 1, s[0], s[1], s[2], s[3]}}};
}

template <class Kernels, class T, int Rank, storage_order Order>
void add_to_features(Kernels& kernels, block<T, Rank, Order> y, block<T const, 1> bias) {
  if constexpr (features_outside<Rank, Order>)
    kernels.add_broadcast(read_only(in_six_dims(y)), block<T const, 6>{bias.data, {{1, 1, 1, bias.size(), 1, 1}}},
                          in_six_dims(y));
  else
    kernels.add_bias(as_matrix(y), bias);
}
template <class Kernels, class T, int Rank, storage_order Order>
void sum_of_features(Kernels& kernels, block<T const, Rank, Order> dy, block<T, 1> sums) {
  if constexpr (features_outside<Rank, Order>)
    kernels.sum_broadcast(in_six_dims(dy), block<T, 6>{sums.data, {{1, 1, 1, sums.size(), 1, 1}}});
  else
    kernels.sum_rows(as_matrix(dy), sums);
}

}  // namespace detail

namespace op {

/// The matrix product of `a` (m x k) and `b` (k x n), each transposed first where asked.
///
/// Splits: m of a, n of b, or k of both (the result is then a partial sum), on any axes together. One operand may be a
/// partial sum. No collectives.
template <bool TransposeA = false, bool TransposeB = false, sharded_tensor A, sharded_tensor B>
auto matmul(A const& a, B const& b) {
  static_assert(A::rank == 2 && B::rank == 2, "tessera: matmul takes matrices; reshape the operands to rank 2 first");
  detail::require_extent(b.extent(TransposeB ? 1 : 0), a.extent(TransposeA ? 0 : 1), "inner extent of b in matmul");
  result_of<detail::matmul_op<TransposeA, TransposeB>, 2, A, B> out(
      a.where(), {{a.extent(TransposeA ? 1 : 0), b.extent(TransposeB ? 0 : 1)}});
  a.where().kernels().matmul(a.read(), TransposeA, b.read(), TransposeB, out.write());
  return out;
}

/// x w^T over the last dimension of `x`; `w` is [out, in].
///
/// Splits: rows of x, out of w, or in of both (partial result). No collectives.
template <sharded_tensor X, sharded_tensor W>
auto linear_product(X const& x, W const& w) {
  constexpr int last = X::rank - 1;
  detail::require_extent(x.extent(last), w.extent(1), "last extent of the input of linear");
  auto extents = x.extents();
  extents[last] = w.extent(0);
  result_of<detail::linear_op<X::rank>, X::rank, X, W> y(x.where(), extents);
  x.where().kernels().matmul(as_matrix(x.read()), false, w.read(), true, as_matrix(y.write()));
  return y;
}

/// Gradient of `linear_product` with respect to x: dy w. Partial along axes that cut out.
template <sharded_tensor Dy, sharded_tensor W>
auto linear_product_backward_input(Dy const& dy, W const& w) {
  auto extents = dy.extents();
  extents[Dy::rank - 1] = w.extent(1);
  result_of<detail::linear_input_gradient_op<Dy::rank>, Dy::rank, Dy, W> dx(dy.where(), extents);
  dy.where().kernels().matmul(as_matrix(dy.read()), false, w.read(), false, as_matrix(dx.write()));
  return dx;
}

/// Gradient of `linear_product` with respect to w, written into `dw`: dy^T x. Partial along axes that cut the rows.
template <sharded_tensor Dy, sharded_tensor X, sharded_tensor Dw>
void linear_product_backward_weight(Dy const& dy, X const& x, Dw& dw) {
  detail::check_target<result_of<detail::linear_weight_gradient_op<X::rank>, 2, Dy, X>, Dw>();
  auto extents = x.extents();
  extents[X::rank - 1] = dw.extent(0);
  detail::require_shape(dy.extents(), extents, "the gradient of linear");
  x.where().kernels().matmul(as_matrix(dy.read()), true, as_matrix(x.read()), false, dw.write());
}

/// y += bias, in place, along the channels of images or the last dimension of anything else.
///
/// A partial `y` does not compile: every rank along the axis would add the bias once more. `add_bias_once` is for that.
template <sharded_tensor Y, sharded_tensor B>
void add_bias(Y& y, B const& bias) {
  using result [[maybe_unused]] = result_of<detail::bias_op<Y::rank, B::rank>, Y::rank, Y, B>;
  detail::check_bias(y, bias);
  detail::add_to_features(y.where().kernels(), y.write(), bias.read());
}

/// y += bias where `y` may be a partial sum: of the ranks along the axes that `y` is partial over, the first one adds.
template <sharded_tensor Y, sharded_tensor B>
void add_bias_once(Y& y, B const& bias) {
  using mesh = typename Y::mesh;
  using whole = relaid<Y, Y::rank, dual(Y::placements)>;
  using result [[maybe_unused]] = result_of<detail::bias_op<Y::rank, B::rank>, Y::rank, whole, B>;
  detail::check_bias(y, bias);
  if (mesh::group_rank(Y::placements.partial_axes(), y.where().coordinates()) == 0)
    detail::add_to_features(y.where().kernels(), y.write(), bias.read());
}

/// Gradient of a bias, written into `db`: the sum of dy over all other dimensions. Partial along axes that cut those.
template <sharded_tensor Dy, sharded_tensor Db>
void bias_backward(Dy const& dy, Db& db) {
  detail::check_target<result_of<detail::bias_gradient_op<Dy::rank>, 1, Dy>, Db>();
  detail::sum_of_features(dy.where().kernels(), dy.read(), db.write());
}

}  // namespace op

}  // namespace tessera
