#pragma once

#include <tessera/op/rules.hpp>

#include <numeric>
#include <span>
#include <vector>

namespace tessera::detail {

/// `Dim` counted from the front.
template <int Dim, int Rank>
constexpr int existing_dim() {
  static_assert(-Rank <= Dim && Dim < Rank,
                "tessera: this operator works along a dimension that the tensor does not have; name one from 0 to its "
                "rank - 1, or from the end as -1");
  return Dim < 0 ? Rank + Dim : Dim;
}

/// A tensor that begins at an index of a line along one dimension.
template <class X>
struct placed_tensor {
  X* tensor;
  index_t begin;
};

/// Copies elements from tensors to tensors wherever both lie at the same index along dimension `Dim`; all have one
/// layout and differ in that dimension only. What nobody holds is left alone.
///
/// Collectives, where `Dim` is cut and anything changes its owner: one all_to_all of just that.
template <int Dim, class X>
void move_along(std::span<placed_tensor<X const> const> from, std::span<placed_tensor<X> const> to) {
  using T = typename X::value_type;
  using mesh = typename X::mesh;
  constexpr int rank = X::rank;
  constexpr axis_set axes = X::placements.shard_axes(Dim);
  constexpr int ranks = mesh::group_size(axes);
  auto& context = to.front().tensor->where();
  const int me = mesh::group_rank(axes, context.coordinates());

  // What a member of the group holds of a tensor, as indices of the line.
  const auto held = [&](auto const& placed, int member) {
    const auto at = mesh::group_member(axes, context.coordinates(), member);
    interval along = local_box<mesh>(X::placements, placed.tensor->extents(), at)[Dim];
    along.begin += placed.begin;
    return along;
  };
  // The part of this rank's block that lies at these indices.
  const auto box_of = [&](auto const& placed, interval const& along) {
    box<rank> part;
    for (int d = 0; d < rank; ++d) part[d] = {0, placed.tensor->local().extent(d)};
    part[Dim] = {along.begin - held(placed, me).begin, along.size};
    return part;
  };
  const auto corner = [](box<rank> const& part) {
    std::array<index_t, static_cast<std::size_t>(rank)> at{};
    for (int d = 0; d < rank; ++d) at[static_cast<std::size_t>(d)] = part[d].begin;
    return at;
  };
  // Calls `with(tensor, tensor, indices)` for all that goes from one member to another.
  const auto for_pairs = [&](int sender, int receiver, auto with) {
    for (auto const& f : from)
      for (auto const& t : to) {
        const interval both = intersect(held(f, sender), held(t, receiver));
        if (both.size > 0) with(f, t, both);
      }
  };

  for_pairs(me, me, [&](auto const& f, auto const& t, interval const& along) {
    copy_box(context.kernels(), f.tensor->read(), box_of(f, along), t.tensor->write(), corner(box_of(t, along)));
  });

  if constexpr (ranks > 1) {
    bool moves = false;
    for (int sender = 0; sender < ranks; ++sender)
      for (int receiver = 0; receiver < ranks; ++receiver)
        if (sender != receiver) for_pairs(sender, receiver, [&](auto const&...) { moves = true; });
    if (!moves) return;

    const auto block_at = [&](T* data, auto const& placed, interval const& along) {
      return typename X::local_type::block_type{data, box_of(placed, along).extents()};
    };
    std::vector<index_t> send_counts(ranks);
    std::vector<index_t> receive_counts(ranks);
    for (int r = 0; r < ranks; ++r) {
      if (r == me) continue;
      const auto other = static_cast<std::size_t>(r);
      for_pairs(me, r, [&](auto const& f, auto const&, interval const& along) {
        send_counts[other] += box_of(f, along).size();
      });
      for_pairs(r, me, [&](auto const&, auto const& t, interval const& along) {
        receive_counts[other] += box_of(t, along).size();
      });
    }
    using buffer = tensor<T, 1, typename X::context_type::backend::memory>;
    buffer sent(shape<1>{std::accumulate(send_counts.begin(), send_counts.end(), index_t{0})});
    buffer received(shape<1>{std::accumulate(receive_counts.begin(), receive_counts.end(), index_t{0})});
    T* next = sent.data();
    for (int r = 0; r < ranks; ++r) {
      if (r == me) continue;
      for_pairs(me, r, [&](auto const& f, auto const&, interval const& along) {
        const auto packed = block_at(next, f, along);
        copy_box(context.kernels(), f.tensor->read(), box_of(f, along), packed, {});
        next += packed.size();
      });
    }
    context.group(axes).all_to_all(sent.data(), send_counts, received.data(), receive_counts);
    next = received.data();
    for (int r = 0; r < ranks; ++r) {
      if (r == me) continue;
      for_pairs(r, me, [&](auto const&, auto const& t, interval const& along) {
        const auto packed = block_at(next, t, along);
        box<rank> all = box_of(t, along);
        const auto at = corner(all);
        for (int d = 0; d < rank; ++d) all[d].begin = 0;
        copy_box(context.kernels(), read_only(packed), all, t.tensor->write(), at);
        next += packed.size();
      });
    }
  }
}

}  // namespace tessera::detail
