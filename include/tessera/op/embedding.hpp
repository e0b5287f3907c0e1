#pragma once

#include <tessera/backend/transfer.hpp>
#include <tessera/op/rules.hpp>

#include <cstdint>

namespace tessera {

namespace detail {

template <int Rank>
struct embedding_op {
  static_assert(Rank == 1 || Rank == 2, "tessera: embedding takes indices [N] or [N, S]; reshape them first");
  static constexpr index_rules rules{
      Rank == 1 ? "n,vf->nf" : "ns,vf->nsf",
      {{'n', "batch"}, {'s', "sequence"}, {'v', "vocabulary", false}, {'f', "features", false}}};
};
template <int Rank>
struct embedding_gradient_op {
  static constexpr index_rules rules{Rank == 1 ? "n,nf->vf" : "ns,nsf->vf",
                                     {{'n', "batch"}, {'s', "sequence"}, {'f', "features"}}};
};

template <class X>
concept index_tensor = sharded_tensor<X> && std::same_as<typename X::value_type, std::int64_t>;

/// Indices as an operand of a rule whose other operands hold elements of type T.
template <class T, index_tensor I>
using indices_as = basic_sharded<T, I::rank, typename I::layout_type, typename I::context_type>;

/// Indices as one row.
template <index_tensor I>
auto index_row(I const& indices) {
  return block<std::int64_t const, 1>{indices.read().data, {indices.local().size()}};
}

/// Throws where an index names none of `count` rows.
template <index_tensor I>
void require_indices(I const& indices, index_t count) {
  index_t place = indices.where().kernels().first_bad_index(index_row(indices), count);
  if (place < 0) return;
  const std::int64_t found = element_on_host(indices.where().kernels(), indices.read().data + place);
  shape<I::rank> at;
  for (int d = I::rank - 1; d >= 0; --d) {
    const interval mine = indices.part()[d];
    at[d] = mine.begin + place % mine.size;
    place /= mine.size;
  }
  throw error("index " + std::to_string(found) + " at " + to_string(at) + " of an embedding",
              "an index from 0 to " + std::to_string(count - 1),
              "mend the data, or enlarge the vocabulary; nothing is ignored, padding has an index of its own");
}

/// The layout of the weight's gradient: a weight cut by its rows has its gradient cut alike, where the work is not cut.
template <class Inferred, class Dw>
constexpr auto with_cut_rows() {
  auto layout = Inferred::placements;
  for (int a = 0; a < Dw::mesh::axes; ++a)
    if (layout[a].is_replicated() && Dw::placements[a].is_shard(0)) layout[a] = Dw::placements[a];
  return layout;
}

}  // namespace detail

/// No row of an embedding is padding.
inline constexpr std::int64_t no_padding = -1;

namespace op {

/// The rows of `weight` [vocabulary, features] that `indices` [N] or [N, S] name: [N, features] or [N, S, features].
///
/// Splits: N and S (indices and result), features (weight and result), and the vocabulary: each rank looks up the rows
/// that it has, and the result is a partial sum. No collectives. Throws where an index names no row, on all ranks that
/// have this index.
template <detail::index_tensor I, sharded_tensor W>
auto embedding(I const& indices, W const& weight) {
  static_assert(W::rank == 2, "tessera: the weight of an embedding is [vocabulary, features]; reshape it first");
  using T = typename W::value_type;
  detail::require_indices(indices, weight.extent(0));
  shape<I::rank + 1> extents;
  for (int d = 0; d < I::rank; ++d) extents[d] = indices.extent(d);
  extents[I::rank] = weight.extent(1);
  result_of<detail::embedding_op<I::rank>, I::rank + 1, detail::indices_as<T, I>, W> y(weight.where(), extents);
  weight.where().kernels().embedding_forward(detail::index_row(indices), weight.read(), weight.part()[0].begin,
                                             as_matrix(y.write()));
  return y;
}

/// Gradient of the weight, written into `dweight`: for each row the sum of `dy` over all places that name it, in their
/// order; zero for the row `padding`. A partial sum along every axis that cuts N or S. No collectives.
template <detail::index_tensor I, sharded_tensor Dy, sharded_tensor Dw>
void embedding_backward(I const& indices, Dy const& dy, Dw& dweight, std::int64_t padding = no_padding) {
  static_assert(Dy::rank == I::rank + 1,
                "tessera: the gradient of an embedding has one dimension more than its indices; pass the gradient of "
                "what embedding returned");
  using inferred =
      result_of<detail::embedding_gradient_op<I::rank>, 2, detail::indices_as<typename Dy::value_type, I>, Dy>;
  detail::check_target<relaid<inferred, 2, detail::with_cut_rows<inferred, Dw>()>, Dw>();
  shape<Dy::rank> wanted;
  for (int d = 0; d < I::rank; ++d) wanted[d] = indices.extent(d);
  wanted[I::rank] = dweight.extent(1);
  detail::require_shape(dy.extents(), wanted, "the gradient of an embedding");
  detail::require_indices(indices, dweight.extent(0));
  dy.where().kernels().embedding_backward(detail::index_row(indices), as_matrix(dy.read()), dweight.part()[0].begin,
                                          padding, dweight.write());
}

}  // namespace op

}  // namespace tessera
