#pragma once

#include <tessera/backend/transfer.hpp>
#include <tessera/core/sharded.hpp>
#include <tessera/core/trace.hpp>
#include <tessera/redistribute/step.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace tessera::detail {

/// Starts of consecutive runs of the given lengths.
inline std::vector<index_t> starts_of(std::vector<index_t> const& counts) {
  std::vector<index_t> starts(counts.size() + 1, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) starts[i + 1] = starts[i] + counts[i];
  return starts;
}

/// `part` in the indices of a block that begins at `origin`.
template <int Rank>
constexpr box<Rank> relative(box<Rank> part, box<Rank> const& origin) {
  for (int d = 0; d < Rank; ++d) part[d].begin -= origin[d].begin;
  return part;
}
template <int Rank>
constexpr std::array<index_t, static_cast<std::size_t>(Rank)> begins(box<Rank> const& part) {
  std::array<index_t, static_cast<std::size_t>(Rank)> at{};
  for (int d = 0; d < Rank; ++d) at[static_cast<std::size_t>(d)] = part[d].begin;
  return at;
}

/// Whether the box is one contiguous run of a block of these extents.
template <storage_order Order, int Rank>
constexpr bool contiguous(box<Rank> const& part, shape<Rank> const& whole) {
  constexpr auto dims = stored_dims<Rank, Order>();
  bool inner_whole = true;  // all dimensions inside this one are whole
  for (int p = Rank - 1; p >= 0; --p) {
    const int d = dims[static_cast<std::size_t>(p)];
    if (!inner_whole && part[d].size != 1) return false;
    if (part[d].size != whole[d]) inner_whole = false;
  }
  return true;
}

/// What member `who` sends to the device at `target` in an exchange: its own block's share of the target's block.
///
/// Every rank takes each piece from the member that has its own coordinates wherever `from` replicates, so nothing
/// that is already here is sent. Empty where the two are not partners.
template <class Mesh, int Rank>
constexpr box<Rank> exchanged_piece(step<Mesh::axes> const& s, shape<Rank> const& global,
                                    decltype(Mesh::sizes) const& source, decltype(Mesh::sizes) const& target) {
  return intersect(local_box<Mesh>(s.from, global, source), local_box<Mesh>(s.to, global, target));
}

/// Where the pieces of a block lie in its memory one after the other, in member order and without gaps: the place of
/// the first, else nothing. Such pieces are sent and received where they are. `piece(r)` is in the block's own indices.
template <storage_order Order, int Rank, class Piece>
std::optional<index_t> packed_place(std::vector<index_t> const& counts, shape<Rank> const& whole, Piece piece) {
  const auto strides = strides_of<Order>(whole);
  std::optional<index_t> place;
  index_t end = 0;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] == 0) continue;
    const box<Rank> part = piece(r);
    index_t offset = 0;
    for (int d = 0; d < Rank; ++d) offset += part[d].begin * strides[static_cast<std::size_t>(d)];
    if (!contiguous<Order>(part, whole) || (place && offset != end)) return std::nullopt;
    if (!place) place = offset;
    end = offset + counts[r];
  }
  return place;
}

/// Carries out one step on this rank's block, in place where nobody else has it. Collective over the groups of
/// `s.group`.
template <class T, int Rank, context Context>
auto execute_step(Context& context, step<Context::mesh::axes> const& s, shape<Rank> const& global,
                  typename sharded<T, Rank, replicated, Context>::local_type have) {
  using local = typename sharded<T, Rank, replicated, Context>::local_type;
  using mesh = typename Context::mesh;
  constexpr storage_order order = Context::backend::order;
  const auto at = context.coordinates();
  const box<Rank> mine = local_box<mesh>(s.from, global, at);
  const box<Rank> wanted = local_box<mesh>(s.to, global, at);
  const int members = mesh::group_size(s.group);
  const bool sends = s.kind != step_kind::slice && members > 1;
  const trace_scope span(sends ? to_string(s.kind) : "copy", sends ? activity::communication : activity::compute);
  auto& kernels = context.kernels();
  const auto n = static_cast<std::size_t>(members);
  const auto member = [&](std::size_t r) { return mesh::group_member(s.group, at, static_cast<int>(r)); };

  if (s.kind == step_kind::all_reduce) {
    if (members == 1) return have;
    local out = have.unique() ? std::move(have) : copied(kernels, have);
    context.group(s.group).all_reduce(out.data(), out.size(), s.op);
    return out;
  }
  if (s.kind == step_kind::slice || members == 1) {
    if (wanted == mine) return have;
    local out(wanted.extents());
    copy_box(kernels, have.read(), relative(wanted, mine), out.view(), {});
    return out;
  }

  using buffer = tensor<T, 1, typename Context::backend::memory>;
  const auto packed_at = [](T* data, box<Rank> const& part) {
    return typename local::block_type{data, part.extents()};
  };
  local out(wanted.extents());
  auto& group = context.group(s.group);
  std::vector<index_t> sent(n);
  std::vector<index_t> received(n);

  if (s.kind == step_kind::all_gather) {
    const auto part_of = [&](std::size_t r) { return relative(local_box<mesh>(s.from, global, member(r)), wanted); };
    for (std::size_t r = 0; r < n; ++r) received[r] = part_of(r).size();
    if (const auto place = packed_place<order>(received, wanted.extents(), part_of)) {
      group.all_gather(have.data(), out.data() + *place, received);
      return out;
    }
    const auto starts = starts_of(received);
    buffer incoming(shape<1>{starts[n]});
    group.all_gather(have.data(), incoming.data(), received);
    for (std::size_t r = 0; r < n; ++r) {
      const box<Rank> part = part_of(r);
      copy_box(kernels, read_only(packed_at(incoming.data() + starts[r], part)), relative(part, part), out.view(),
               begins(part));
    }
    return out;
  }

  const bool reduce = s.kind == step_kind::reduce_scatter;
  const auto self = static_cast<std::size_t>(mesh::group_rank(s.group, at));
  const auto piece_to = [&](std::size_t r) { return relative(exchanged_piece<mesh>(s, global, at, member(r)), mine); };
  const auto piece_from = [&](std::size_t r) {
    return relative(exchanged_piece<mesh>(s, global, member(r), at), wanted);
  };
  for (std::size_t r = 0; r < n; ++r) {
    const bool remote = reduce || r != self;
    sent[r] = remote ? piece_to(r).size() : 0;
    received[r] = remote && !reduce ? piece_from(r).size() : 0;
  }

  // What each member gets of my block, in member order.
  T const* outgoing = nullptr;
  buffer packed{};
  if (const auto place = packed_place<order>(sent, mine.extents(), piece_to)) {
    outgoing = have.data() + *place;
  } else {
    const auto starts = starts_of(sent);
    packed = buffer(shape<1>{starts[n]});
    outgoing = packed.data();
    for (std::size_t r = 0; r < n; ++r) {
      if (sent[r] == 0) continue;
      const box<Rank> piece = piece_to(r);
      copy_box(kernels, have.read(), piece, packed_at(packed.data() + starts[r], piece), {});
    }
  }
  if (reduce) {
    group.reduce_scatter(outgoing, out.data(), sent, s.op);
    return out;
  }

  if (const box<Rank> kept = piece_from(self); kept.size() > 0)
    copy_box(kernels, have.read(), piece_to(self), out.view(), begins(kept));
  if (const auto place = packed_place<order>(received, wanted.extents(), piece_from)) {
    group.all_to_all(outgoing, sent, out.data() + *place, received);
    return out;
  }
  const auto starts = starts_of(received);
  buffer incoming(shape<1>{starts[n]});
  group.all_to_all(outgoing, sent, incoming.data(), received);
  for (std::size_t r = 0; r < n; ++r) {
    if (received[r] == 0) continue;
    const box<Rank> piece = piece_from(r);
    copy_box(kernels, read_only(packed_at(incoming.data() + starts[r], piece)), relative(piece, piece), out.view(),
             begins(piece));
  }
  return out;
}

}  // namespace tessera::detail
