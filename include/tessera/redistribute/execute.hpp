#pragma once

#include <tessera/core/sharded.hpp>
#include <tessera/redistribute/route.hpp>

#include <vector>

namespace tessera::detail {

/// Starts of consecutive runs of the given lengths.
inline std::vector<index> starts_of(std::vector<index> const& counts) {
  std::vector<index> starts(counts.size() + 1, 0);
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
constexpr std::array<index, static_cast<std::size_t>(Rank)> begins(box<Rank> const& part) {
  std::array<index, static_cast<std::size_t>(Rank)> at{};
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

/// Carries out one step on this rank's block. Collective over the groups of `s.group`.
template <class T, int Rank, context Context>
auto execute_step(Context& context, step<Context::mesh::axes> const& s, shape<Rank> const& global,
                  typename sharded<T, Rank, replicated, Context>::local_type const& have) {
  using local = typename sharded<T, Rank, replicated, Context>::local_type;
  using mesh = typename Context::mesh;
  constexpr storage_order order = Context::backend::order;
  const auto at = context.coordinates();
  const box<Rank> mine = local_box<mesh>(s.from, global, at);
  const box<Rank> wanted = local_box<mesh>(s.to, global, at);
  const int members = mesh::group_size(s.group);
  const auto n = static_cast<std::size_t>(members);
  const auto member = [&](std::size_t r) { return mesh::group_member(s.group, at, static_cast<int>(r)); };

  if (s.kind == step_kind::all_reduce) {
    local out = have.clone();
    if (members > 1) context.group(s.group).all_reduce(out.data(), out.size(), s.op);
    return out;
  }
  if (s.kind == step_kind::slice || members == 1) {
    if (wanted == mine) return have;
    local out(wanted.extents());
    copy_box<T>(have.read(), relative(wanted, mine), out.view(), {});
    return out;
  }
  local out(wanted.extents());
  auto& group = context.group(s.group);
  std::vector<index> sent(n);
  std::vector<index> received(n);

  if (s.kind == step_kind::all_gather) {
    std::vector<box<Rank>> parts(n);
    bool in_place = true;
    for (std::size_t r = 0; r < n; ++r) {
      parts[r] = local_box<mesh>(s.from, global, member(r));
      received[r] = parts[r].size();
    }
    const auto starts = starts_of(received);
    const auto strides = strides_of<order>(wanted.extents());
    for (std::size_t r = 0; r < n; ++r) {
      parts[r] = relative(parts[r], wanted);
      index offset = 0;
      for (int d = 0; d < Rank; ++d) offset += parts[r][d].begin * strides[static_cast<std::size_t>(d)];
      in_place = in_place && (received[r] == 0 || (contiguous<order>(parts[r], wanted.extents()) && offset == starts[r]));
    }
    if (in_place) {
      group.all_gather(have.data(), out.data(), received);
      return out;
    }
    tensor<T, 1, typename Context::backend::memory, order> buffer(shape<1>{starts[n]});
    group.all_gather(have.data(), buffer.data(), received);
    for (std::size_t r = 0; r < n; ++r)
      copy_box<T>(block<T const, Rank, order>{buffer.data() + starts[r], parts[r].extents()},
                  relative(parts[r], parts[r]), out.view(), begins(parts[r]));
    return out;
  }

  // What each member gets of my block, packed in member order.
  const bool reduce = s.kind == step_kind::reduce_scatter;
  const auto self = static_cast<std::size_t>(mesh::group_rank(s.group, at));
  const auto piece_to = [&](std::size_t r) { return exchanged_piece<mesh>(s, global, at, member(r)); };
  const auto piece_from = [&](std::size_t r) { return exchanged_piece<mesh>(s, global, member(r), at); };
  for (std::size_t r = 0; r < n; ++r) {
    const bool remote = reduce || r != self;
    sent[r] = remote ? piece_to(r).size() : 0;
    received[r] = remote && !reduce ? piece_from(r).size() : 0;
  }
  const auto out_starts = starts_of(sent);
  tensor<T, 1, typename Context::backend::memory, order> outgoing(shape<1>{out_starts[n]});
  for (std::size_t r = 0; r < n; ++r) {
    if (sent[r] == 0) continue;
    const box<Rank> piece = piece_to(r);
    copy_box<T>(have.read(), relative(piece, mine),
                block<T, Rank, order>{outgoing.data() + out_starts[r], piece.extents()}, {});
  }
  if (reduce) {
    group.reduce_scatter(outgoing.data(), out.data(), sent, s.op);
    return out;
  }
  const auto in_starts = starts_of(received);
  tensor<T, 1, typename Context::backend::memory, order> incoming(shape<1>{in_starts[n]});
  group.all_to_all(outgoing.data(), sent, incoming.data(), received);
  for (std::size_t r = 0; r < n; ++r) {
    const box<Rank> piece = piece_from(r);
    if (piece.size() == 0) continue;
    if (r == self)
      copy_box<T>(have.read(), relative(piece, mine), out.view(), begins(relative(piece, wanted)));
    else
      copy_box<T>(block<T const, Rank, order>{incoming.data() + in_starts[r], piece.extents()}, relative(piece, piece),
                  out.view(), begins(relative(piece, wanted)));
  }
  return out;
}

}  // namespace tessera::detail
