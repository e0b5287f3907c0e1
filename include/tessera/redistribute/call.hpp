#pragma once

#include <tessera/comm/collective.hpp>
#include <tessera/core/error.hpp>
#include <tessera/redistribute/halo_plan.hpp>
#include <tessera/redistribute/ring_plan.hpp>
#include <tessera/redistribute/route.hpp>

#include <string>
#include <vector>

namespace tessera {

/// When in a training step a collective runs, or what for: reductions of gradients run beside backward, gathers of
/// parameters that ranks share beside both passes.
enum class phase : std::uint8_t { forward, backward, gradient, parameter };

/// One collective that a program will make, known while compiling: kind, axes, and a formula for its size.
///
/// The payload has the extents `extents` (the first one may be `dynamic`: the batch) cut by `from`, and by `to` after
/// the call where it moves data; `factor` values are sent for each of its elements. A halo stands for the sends and
/// receives of `halo_plan`, its payload being what a device receives. So does a ring for those of `ring_plan`, its
/// blocks being cut along dimension 1.
template <int Axes>
struct collective_call {
  phase when{};
  collective kind{};
  axis_set group{};
  reduction op{};
  int rank = 0;
  index_t extents[max_rank] = {};
  placements<Axes> from{};
  placements<Axes> to{};
  index_t factor = 1;
  halo_window windows[2] = {};  ///< of a halo: how the operator walks dimensions 2 and 3
  bool causal = false;          ///< of a ring: whether devices need no blocks of later positions

  /// Elements of the payload on the device at `at`, counted as the recording communicator counts them.
  ///
  /// Throws (in a constant expression: does not compile) where another extent than the batch is `dynamic`.
  template <device_mesh Mesh>
  constexpr index_t elements(index_t batch, decltype(Mesh::sizes) const& at) const {
    shape<max_rank> global;
    for (int d = 0; d < max_rank; ++d) {
      global[d] = d >= rank ? 1 : d == 0 && extents[d] == dynamic ? batch : extents[d];
      if (global[d] == dynamic)
        throw error("the size of a collective whose extent " + std::to_string(d) + " only run time knows",
                    "static extents but for the batch",
                    "name the input, as in parallel<model, input<dynamic, 3, 224, 224>>");
    }
    if (kind == collective::halo) {
      const halo_plan<Mesh, 4, 2, 3> plan(from, {{global[0], global[1], global[2], global[3]}},
                                          {windows[0], windows[1]}, at);
      // Backward the halo of a gradient is sent back to where it belongs, or that of the output's gradient is fetched.
      const bool fetched = when == phase::forward || windows[0].is_transposed();
      return fetched ? plan.received().elements : plan.sent().elements;
    }
    if (kind == collective::ring) {
      const auto parts = parts_along<Mesh>(1, from, global, at);
      const ring_plan plan(parts, parts, causal);
      const int here = Mesh::group_rank(from.shard_axes(1), at);
      auto position = local_box<Mesh>(from, global, at);
      position[1].size = 1;
      return position.size() * (plan.blocks_received(here).positions +
                                (when == phase::backward ? plan.gradients_received(here).positions : 0));
    }
    const auto held = local_box<Mesh>(from, global, at);
    const auto wanted = local_box<Mesh>(to, global, at);
    if (kind == collective::all_gather) return factor * wanted.size();
    if (kind != collective::all_to_all) return factor * held.size();
    const index_t own = intersect(held, wanted).size();
    index_t sent = 0;
    for (int r = 0; r < Mesh::group_size(group); ++r)
      sent += intersect(held, local_box<Mesh>(to, global, Mesh::group_member(group, at, r))).size();
    const index_t received = wanted.size() - own;
    sent -= own;
    return factor * (sent > received ? sent : received);
  }
};

/// A list of collectives in the order in which they run.
template <int Axes>
using call_list = std::vector<collective_call<Axes>>;

/// The collective of a step of a route, `barrier` for a slice, which makes none.
constexpr collective collective_of(step_kind kind) {
  switch (kind) {
    case step_kind::all_gather: return collective::all_gather;
    case step_kind::reduce_scatter: return collective::reduce_scatter;
    case step_kind::all_reduce: return collective::all_reduce;
    case step_kind::exchange: return collective::all_to_all;
    case step_kind::slice:
    case step_kind::none: break;
  }
  return collective::barrier;
}

/// Appends the collectives of a route of a tensor with these extents.
template <device_mesh Mesh, int Rank>
constexpr void append_route(call_list<Mesh::axes>& calls, phase when, shape<Rank> const& extents,
                            placements<Mesh::axes> const& from, placements<Mesh::axes> const& to) {
  for (auto const& s : find_route(Mesh::value, from, to, Rank)) {
    if (s.kind == step_kind::slice || Mesh::group_size(s.group) == 1) continue;
    collective_call<Mesh::axes> call{when, collective_of(s.kind), Mesh::cutting(s.group), s.op, Rank, {}, s.from, s.to,
                                     1};
    for (int d = 0; d < Rank; ++d) call.extents[d] = extents[d];
    calls.push_back(call);
  }
}

/// Appends a reduction along `axes` of `factor` values for each element of a tensor of these extents and layout;
/// nothing where the axes have one device.
template <device_mesh Mesh, int Rank>
constexpr void append_reduction(call_list<Mesh::axes>& calls, phase when, collective kind, axis_set axes, reduction op,
                                shape<Rank> const& extents, placements<Mesh::axes> const& layout, index_t factor = 1) {
  if (Mesh::group_size(axes) == 1) return;
  collective_call<Mesh::axes> call{when, kind, Mesh::cutting(axes), op, Rank, {}, layout, layout, factor};
  for (int d = 0; d < Rank; ++d) call.extents[d] = extents[d];
  calls.push_back(call);
}

/// Appends an all_reduce of one value for each row along `dim`, over the axes that cut `dim`.
template <device_mesh Mesh, int Rank>
constexpr void append_row_reduction(call_list<Mesh::axes>& calls, phase when, reduction op, shape<Rank> extents,
                                    placements<Mesh::axes> layout, int dim) {
  const axis_set axes = layout.shard_axes(dim);
  extents[dim] = 1;
  for (int a = 0; a < Mesh::axes; ++a)
    if (layout[a].is_shard(dim)) layout[a] = replicated_placement();
  append_reduction<Mesh>(calls, when, collective::all_reduce, axes, op, extents, layout);
}

/// Appends the halo of images of these extents and this layout; nothing where no axis cuts height or width.
template <device_mesh Mesh>
constexpr void append_halo(call_list<Mesh::axes>& calls, phase when, shape<4> const& extents,
                           placements<Mesh::axes> const& layout, std::array<halo_window, 2> const& windows) {
  const auto spatial = static_cast<axis_set>(layout.shard_axes(2) | layout.shard_axes(3));
  if (Mesh::group_size(spatial) == 1) return;
  collective_call<Mesh::axes> call{when,  collective::halo, Mesh::cutting(spatial), reduction::sum, 4, {}, layout,
                                   layout};
  for (int d = 0; d < 4; ++d) call.extents[d] = extents[d];
  for (int d = 0; d < 2; ++d) call.windows[d] = windows[static_cast<std::size_t>(d)];
  calls.push_back(call);
}

/// Appends a ring of blocks [B, S, ...] of these extents and this layout; nothing where no axis cuts dimension 1.
template <device_mesh Mesh, int Rank>
constexpr void append_ring(call_list<Mesh::axes>& calls, phase when, shape<Rank> const& extents,
                           placements<Mesh::axes> const& layout, bool causal) {
  const axis_set axes = layout.shard_axes(1);
  if (Mesh::group_size(axes) == 1) return;
  collective_call<Mesh::axes> call{when,  collective::ring, Mesh::cutting(axes), reduction::sum, Rank, {}, layout,
                                   layout};
  for (int d = 0; d < Rank; ++d) call.extents[d] = extents[d];
  call.causal = causal;
  calls.push_back(call);
}

}  // namespace tessera
