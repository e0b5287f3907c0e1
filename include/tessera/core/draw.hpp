#pragma once

#include <tessera/core/layout_text.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace tessera {

namespace detail {

/// Numbers in ascending order, neighbours joined: `0-3,8`.
inline std::string list_of_ranks(std::vector<int> const& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i == 2) end = i + 1;
    text += (text.empty() ? "" : ",") + std::to_string(ranks[i]);
    if (end - i > 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

inline std::string index_range(interval i) {
  return i.size == 1 ? std::to_string(i.begin) : std::to_string(i.begin) + ".." + std::to_string(i.end() - 1);
}

/// What a drawing shows: the blocks of two dimensions of a tensor, or of one, or a scalar.
struct block_grid {
  std::string caption;
  index_t height = 1;
  index_t width = 1;
  bool has_rows = false;     ///< the vertical direction is a dimension
  bool has_columns = false;  ///< the horizontal direction is one
  std::vector<interval> rows;
  std::vector<interval> columns;
  struct cell {
    std::string label;  ///< the ranks that hold the block
    int first = 0;      ///< of them
  };
  std::vector<cell> cells;  ///< row by row
  bool terms = false;       ///< the blocks are terms of sums or maxima
  std::vector<std::string> notes;
};

/// The parts that the axes cut a dimension into, and who holds each; the empty ones are left out.
template <int Rank>
std::map<index_t, std::pair<interval, std::vector<int>>> parts_along(std::vector<box<Rank>> const& held, int dim) {
  std::map<index_t, std::pair<interval, std::vector<int>>> parts;
  for (std::size_t r = 0; r < held.size(); ++r)
    if (const interval part = held[r][dim]; part.size > 0) {
      parts[part.begin].first = part;
      parts[part.begin].second.push_back(static_cast<int>(r));
    }
  return parts;
}

/// The ranks that hold a block: `0-3` hold the same, `0-3 + 4-7` its terms, `max(0-3; 4-7)` the terms of a maximum.
template <int Axes>
std::string holders(mesh_sizes<Axes> const& mesh, placements<Axes> const& layout, std::vector<int> const& ranks) {
  unsigned maxima = 0;
  for (int a = 0; a < Axes; ++a)
    if (layout[a] == partial_placement(reduction::maximum)) maxima |= 1u << a;
  const auto sums = static_cast<axis_set>(layout.partial_axes() & ~maxima);
  std::map<int, std::map<int, std::vector<int>>> terms;
  for (const int r : ranks) {
    const auto at = mesh.coordinates(r);
    terms[mesh.group_rank(static_cast<axis_set>(maxima), at)][mesh.group_rank(sums, at)].push_back(r);
  }
  std::string text;
  for (auto const& [_, summands] : terms) {
    std::string sum;
    for (auto const& [__, same] : summands) sum += (sum.empty() ? "" : " + ") + list_of_ranks(same);
    text += (text.empty() ? "" : "; ") + sum;
  }
  return terms.size() > 1 ? "max(" + text + ")" : text;
}

/// The two dimensions that a drawing shows, ascending: those that are cut, and the last ones; -1 for none.
template <int Axes>
std::array<int, 2> drawn_dims(placements<Axes> const& layout, int rank) {
  std::vector<int> dims;
  for (int d = 0; d < rank && dims.size() < 2; ++d)
    if (layout.cuts(d) > 0) dims.push_back(d);
  for (int d = rank - 1; d >= 0 && dims.size() < 2; --d)
    if (layout.cuts(d) == 0) dims.push_back(d);
  std::sort(dims.begin(), dims.end());
  dims.insert(dims.begin(), 2 - dims.size(), -1);
  return {dims[0], dims[1]};
}

template <int Axes, int Rank>
block_grid grid_of(named_mesh<Axes> const& mesh, placements<Axes> const& layout, shape<Rank> const& extents) {
  block_grid grid;
  std::string size;
  for (int d = 0; d < Rank; ++d) size += (d > 0 ? " x " : "") + std::to_string(extents[d]);
  const std::string devices = to_string(mesh);
  grid.caption = to_string(mesh, layout, Rank) + " of " + (Rank == 0 ? "a scalar" : size) + " on " +
                 (devices.empty() ? "one device" : devices);
  grid.terms = mesh.sizes.cutting(layout.partial_axes()) != 0;

  std::vector<box<Rank>> held;
  std::vector<int> idle;
  for (int r = 0; r < mesh.sizes.devices(); ++r) {
    held.push_back(local_box(mesh.sizes, layout, extents, mesh.sizes.coordinates(r)));
    if (held.back().size() == 0) idle.push_back(r);
  }
  const auto [vertical, horizontal] = drawn_dims(layout, Rank);
  grid.has_rows = vertical >= 0;
  grid.has_columns = horizontal >= 0;
  const auto sides = [&](int dim, index_t& extent) {
    if (dim < 0) return std::vector<interval>{{0, 1}};
    extent = extents[dim];
    std::vector<interval> parts;
    for (auto const& [_, part] : parts_along(held, dim)) parts.push_back(part.first);
    return parts;
  };
  grid.rows = sides(vertical, grid.height);
  grid.columns = sides(horizontal, grid.width);
  for (const interval row : grid.rows)
    for (const interval column : grid.columns) {
      std::vector<int> ranks;
      for (std::size_t r = 0; r < held.size(); ++r)
        if (held[r].size() > 0 && (vertical < 0 || held[r][vertical] == row) &&
            (horizontal < 0 || held[r][horizontal] == column))
          ranks.push_back(static_cast<int>(r));
      grid.cells.push_back({holders(mesh.sizes, layout, ranks), ranks.empty() ? 0 : ranks.front()});
    }

  for (int d = 0; d < Rank; ++d) {
    if (d == vertical || d == horizontal) continue;
    std::string note = "dimension " + std::to_string(d) + ", not drawn:";
    const char* apart = " ";
    for (auto const& [_, part] : parts_along(held, d)) {
      note += apart + index_range(part.first) + (layout.cuts(d) > 0 ? " on " + list_of_ranks(part.second) : "");
      apart = ", ";
    }
    grid.notes.push_back(note);
  }
  if (!idle.empty()) grid.notes.push_back("no elements on " + list_of_ranks(idle));
  return grid;
}

}  // namespace detail

/// Draws who holds which block, as text: the blocks of a matrix with the ranks that hold each (of a vector, of a
/// scalar). Of more dimensions two are drawn, cut ones first, and the others listed.
///
/// `0-3` says that these ranks hold the same, `0-3 + 4-7` that ranks 0 to 3 hold one term and 4 to 7 the other. Blocks
/// are not to scale (see `draw_svg`); the indices that they hold are at the sides.
template <int Axes, int Rank>
std::string draw_text(named_mesh<Axes> const& mesh, placements<Axes> const& layout, shape<Rank> const& extents) {
  const detail::block_grid grid = detail::grid_of(mesh, layout, extents);
  const auto padded = [](std::string const& text, std::size_t width) {
    return text + std::string(width - text.size(), ' ');
  };
  std::size_t margin = 0;
  if (grid.has_rows)
    for (const interval row : grid.rows) margin = std::max(margin, detail::index_range(row).size() + 1);
  std::string head(margin, ' ');
  std::string line(margin, ' ');
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < grid.columns.size(); ++c) {
    const std::string range = grid.has_columns ? detail::index_range(grid.columns[c]) : "";
    widths.push_back(range.size());
    for (std::size_t r = 0; r < grid.rows.size(); ++r)
      widths.back() = std::max(widths.back(), grid.cells[r * grid.columns.size() + c].label.size());
    head += "  " + padded(range, widths.back() + 1);
    line += "+" + std::string(widths.back() + 2, '-');
  }
  line += "+\n";
  head.erase(head.find_last_not_of(' ') + 1);

  std::string text = grid.caption + "\n";
  if (!grid.cells.empty()) {
    text += "\n" + (head.empty() ? "" : head + "\n") + line;
    for (std::size_t r = 0; r < grid.rows.size(); ++r) {
      text += padded(grid.has_rows ? detail::index_range(grid.rows[r]) : "", margin);
      for (std::size_t c = 0; c < grid.columns.size(); ++c)
        text += "| " + padded(grid.cells[r * grid.columns.size() + c].label, widths[c] + 1);
      text += "|\n" + line;
    }
  }
  for (std::string const& note : grid.notes) text += note + "\n";
  return text;
}

/// The drawing of a layout of a program's mesh: `draw<world, row<dp>>(shape<2>{{10, 6}})`.
template <device_mesh Mesh, layout_word Layout, int Rank>
std::string draw(shape<Rank> const& extents) {
  return draw_text(named<Mesh>(), placements_of<Mesh, Layout>, extents);
}

}  // namespace tessera
