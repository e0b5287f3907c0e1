#pragma once

// What a route does, step by step: what `route` prints, and the table of docs/layouts.md.

#include <tessera/core/layout_text.hpp>
#include <tessera/redistribute/search.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace routes {

namespace ts = tessera;

struct described_step {
  std::string kind;
  std::string along;   // the axes whose devices take part, as in x,y; empty for a slice
  std::string layout;  // after the step
  ts::step_cost cost;
};

template <int Axes>
struct description {
  ts::route<Axes> route;
  std::vector<described_step> steps;
  ts::step_cost total;
  std::optional<ts::index_t> least;  // elements that some device must receive, where nothing is reduced
};

/// The kind of a step; exchanges of two regular kinds have the names that they have elsewhere: in an `all_to_all` each
/// member of a group sends equal and different blocks to all of them, and in a `permute` no device receives more than
/// one message.
template <int Axes, int Rank>
std::string kind_of(ts::mesh_sizes<Axes> const& mesh, ts::shape<Rank> const& extents, ts::step<Axes> const& s) {
  // Along axes of one device nothing is sent.
  if (mesh.group_size(s.group) == 1) return to_string(ts::step_kind::slice);
  // An all-gather may come as an exchange.
  if (s.kind != ts::step_kind::exchange || one_step(s.from, s.to).kind != ts::step_kind::exchange)
    return to_string(s.kind);
  const int members = mesh.group_size(s.group);
  // Where the layout is cut along all axes of the group, its members want different blocks.
  bool equal = (mesh.cutting(s.group) & ~s.to.axes_of(ts::placement_kind::shard)) == 0;
  bool single = true;
  ts::index_t first = -1;
  for (int r = 0; r < mesh.devices(); ++r) {
    const auto at = mesh.coordinates(r);
    const auto wanted = local_box(mesh, s.to, extents, at);
    int messages = 0;
    for (int m = 0; m < members; ++m) {
      const auto source = mesh.group_member(s.group, at, m);
      const ts::index_t piece = intersect(local_box(mesh, s.from, extents, source), wanted).size();
      if (first < 0) first = piece;
      equal = equal && piece == first && piece > 0;
      messages += piece > 0 && source != at ? 1 : 0;
    }
    single = single && messages <= 1;
  }
  return equal ? "all_to_all" : single ? "permute" : "exchange";
}

/// The route on a network, or that for large tensors where none is given: the functions that the compiler evaluates for
/// `tessera::to`.
template <int Axes, int Rank>
description<Axes> describe(ts::named_mesh<Axes> const& mesh, std::optional<ts::mesh_links<Axes>> const& net,
                           ts::shape<Rank> const& extents, ts::index_t element_bytes, ts::placements<Axes> const& from,
                           ts::placements<Axes> const& to) {
  description<Axes> all;
  all.route =
      net ? cheapest_route(mesh.sizes, *net, extents, element_bytes, from, to) : find_route(mesh.sizes, from, to, Rank);
  for (ts::step<Axes> const& s : all.route) {
    const ts::step_cost cost = cost_of(mesh.sizes, net.value_or(ts::mesh_links<Axes>{}), extents, element_bytes, s);
    all.steps.push_back(
        {kind_of(mesh.sizes, extents, s), mesh.list(mesh.sizes.cutting(s.group)), to_string(mesh, s.to, Rank), cost});
    all.total.received += cost.received;
    all.total.messages += cost.messages;
    all.total.seconds += cost.seconds;
  }
  bool reduced = false;
  for (int a = 0; a < Axes; ++a) reduced = reduced || (from[a].is_partial() && !to[a].is_partial());
  if (!reduced) all.least = lacking_elements(mesh.sizes, extents, from, to);
  return all;
}

/// Lines of columns that are as wide as their widest cell. Columns from `numbers` on are aligned to the right.
inline std::string table(std::vector<std::vector<std::string>> const& lines, std::size_t numbers) {
  std::vector<std::size_t> widths;
  for (auto const& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], line[c].size());
    }
  std::string text;
  for (auto const& line : lines) {
    std::string row;
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string fill(widths[c] - line[c].size(), ' ');
      row += (c > 0 ? "  " : "") + (c < numbers ? line[c] + fill : fill + line[c]);
    }
    text += row.erase(row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace routes
