#pragma once

#include <tessera/op/attention_local.hpp>

namespace tessera::detail {

/// Whether a dimension of a mask is whole or cut like dimension `of_queries` of the queries.
template <sharded_tensor Q, sharded_tensor M>
constexpr bool mask_is_cut_like(int dim, int of_queries) {
  for (int a = 0; a < Q::mesh::axes; ++a) {
    const placement of_mask = M::placements[a];
    const placement wanted = Q::placements[a];
    if (of_mask.is_shard(dim) && !(wanted.is_shard(of_queries) && wanted.order == of_mask.order)) return false;
  }
  return M::placements.cuts(dim) == 0 || M::placements.cuts(dim) == Q::placements.cuts(of_queries);
}

/// The rows of a mask [S, T] or [B or 1, H or 1, S, T] for this rank's queries of attention of S queries to T keys.
template <sharded_tensor Q, sharded_tensor M>
class mask_rows {
  using dims = head_dims<Q::rank>;
  using T = typename Q::value_type;
  static_assert(M::rank == 2 || M::rank == 4,
                "tessera: the mask of attention is neither [S, T] nor [B or 1, H or 1, S, T]; reshape it");
  static_assert(std::is_same_v<typename M::value_type, T>,
                "tessera: the mask of attention is added to the scores, so it has the type of the queries; make it 0 "
                "where a query sees a key and minus infinity where it does not");
  static_assert(M::placements.partial_axes() == 0,
                "tessera: attention is not linear in its mask, so it cannot take a partial one: reduce it first, as in "
                "mask | tessera::to<tessera::replicated>");
  static constexpr int rank = M::rank;
  static_assert(
      M::placements.cuts(rank - 1) == 0 && mask_is_cut_like<Q, M>(rank - 2, dims::sequence) &&
          (rank == 2 || (mask_is_cut_like<Q, M>(0, dims::batch) && mask_is_cut_like<Q, M>(1, dims::heads))),
      "tessera: a dimension of the mask of attention is whole, or cut as that of the queries is, and all keys "
      "are together; redistribute the mask first");

 public:
  mask_rows(Q const& q, index_t keys, M const& mask) {
    require_extent(mask.extent(rank - 1), keys, "number of keys in the mask of attention");
    require_extent(mask.extent(rank - 2), q.extent(dims::sequence), "number of queries in the mask of attention");
    if constexpr (rank == 2) {
      rows_ = {mask.read().data, 0, 0, keys};
    } else {
      if (mask.extent(0) != 1)
        require_extent(mask.extent(0), q.extent(dims::batch), "number of samples in the mask of attention");
      if (mask.extent(1) != 1)
        require_extent(mask.extent(1), q.extent(dims::heads), "number of heads in the mask of attention");
      const shape<4> s = mask.local().extents();
      ordered_ = memory(shape<2>{{s[0], s[1] * s[2] * s[3]}});
      mask.where().kernels().flatten(mask.read(), ordered_.view());
      rows_ = packed_heads(std::as_const(ordered_).data(), s[1], s[2], s[3]);
      if (mask.extent(0) == 1) rows_.batch = 0;
      if (mask.extent(1) == 1) rows_.head = 0;
    }
    const auto first = [&](int dim, int of_queries) { return q.part()[of_queries].begin - mask.part()[dim].begin; };
    rows_.data += first(rank - 2, dims::sequence) * rows_.row;
    if constexpr (rank == 4) rows_.data += first(0, dims::batch) * rows_.batch + first(1, dims::heads) * rows_.head;
  }
  head_rows<T const> rows() const { return rows_; }

 private:
  using memory = tensor<T, 2, typename M::context_type::backend::memory>;
  memory ordered_{};
  head_rows<T const> rows_{};
};

}  // namespace tessera::detail
