#pragma once

#include "operator.hpp"

namespace comparison {

/// One head of tensors [B, S, P, H, D] by hand: its rows are `stride` numbers apart.
using head_stride = Eigen::OuterStride<>;
using head = Eigen::Map<matrix, 0, head_stride>;
using const_head = Eigen::Map<matrix const, 0, head_stride>;

/// Softmax of each row of scores.
inline void softmax_rows(matrix& s) {
  for (ts::index_t r = 0; r < s.rows(); ++r) {
    s.row(r).array() = (s.row(r).array() - s.row(r).maxCoeff()).exp();
    s.row(r) *= 1 / s.row(r).sum();
  }
}

/// softmax(q k^T / sqrt(D)) v with all scores in memory, which are left in `p`.
template <class Head>
void attend(Head const& q, Head const& k, Head const& v, matrix& p, head y) {
  p.noalias() = q * k.transpose();
  p *= 1 / std::sqrt(static_cast<float>(q.cols()));
  softmax_rows(p);
  y.noalias() = p * v;
}

/// Its gradients, from the probabilities.
template <class Head>
void attend_backward(Head const& q, Head const& k, Head const& v, matrix const& p, Head const& dy, head dq, head dk,
                     head dv) {
  dv.noalias() = p.transpose() * dy;
  matrix ds = dy * v.transpose();
  const array dots = ds.cwiseProduct(p).rowwise().sum();
  for (ts::index_t r = 0; r < ds.rows(); ++r) ds.row(r).array() = p.row(r).array() * (ds.row(r).array() - dots[r]);
  ds *= 1 / std::sqrt(static_cast<float>(q.cols()));
  dq.noalias() = ds * k;
  dk.noalias() = ds.transpose() * q;
}

}  // namespace comparison
