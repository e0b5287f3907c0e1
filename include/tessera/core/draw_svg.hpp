#pragma once

#include <tessera/core/draw.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

namespace detail {

/// The bytes of the UTF-8 character that `text` begins with; 0 where there is none that XML 1.0 allows.
inline std::size_t xml_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 || lead == '\t' || lead == '\n' || lead == '\r' ? 1 : 0;
  const std::size_t bytes = lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xE ? 3 : lead >> 3 == 0x1E ? 4 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  std::uint32_t code = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 2) return 0;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t least[] = {0x80, 0x800, 0x10000};
  const bool allowed = code >= least[bytes - 2] && code <= 0x10FFFF && code >> 11 != 0x1B && code >> 1 != 0x7FFF;
  return allowed ? bytes : 0;
}

/// Text in XML: the names of axes may hold < and >. Bytes that XML cannot hold become U+FFFD.
inline std::string escape_xml(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t bytes = xml_character(text);
    switch (text[0]) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      default: escaped += bytes == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, bytes);
    }
    text.remove_prefix(std::max(bytes, std::size_t{1}));
  }
  return escaped;
}

/// One line of text centred vertically at `y`, in letters of `size` pixels or as fit into `room`.
inline std::string svg_text(long x, long y, std::string const& anchor, std::string const& text, long room = 1 << 20,
                            long size = 13) {
  if (text.empty()) return "";
  // A letter is about 0.6 times as wide as it is high. Whole numbers: the same image whatever the compiler.
  size = std::min(size, 10 * room / (6 * static_cast<long>(text.size())));
  if (size < 3) return "";
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y + (7 * size + 10) / 20) + "\" font-size=\"" +
         std::to_string(size) + "\" text-anchor=\"" + anchor + "\">" + escape_xml(text) + "</text>\n";
}

inline std::string svg_rectangle(std::string const& attributes, long left, long top, long right, long bottom) {
  return "<rect x=\"" + std::to_string(left) + "\" y=\"" + std::to_string(top) + "\" width=\"" +
         std::to_string(right - left) + "\" height=\"" + std::to_string(bottom - top) + "\" " + attributes + "/>\n";
}

}  // namespace detail

/// Draws who holds which block, as an SVG image that needs no other file and follows the reader's light or dark
/// colours.
///
/// As `draw_text`, with blocks to scale. A block has the colour of the first rank that holds it; blocks that are terms
/// of sums or maxima are hatched.
template <int Axes, int Rank>
std::string draw_svg(named_mesh<Axes> const& mesh, placements<Axes> const& layout, shape<Rank> const& extents) {
  const detail::block_grid grid = detail::grid_of(mesh, layout, extents);
  constexpr long left = 64;
  constexpr long top = 56;
  constexpr long side = 240;
  constexpr long note_height = 20;
  // To scale, but no side shorter than a third of the other.
  const double aspect =
      static_cast<double>(std::max<index_t>(grid.height, 1)) / static_cast<double>(std::max<index_t>(grid.width, 1));
  const long right = left + (grid.has_columns ? std::clamp(std::lround(side / aspect), side / 3, side) : side / 3);
  const long bottom = top + (grid.has_rows ? std::clamp(std::lround(side * aspect), side / 3, side) : side / 6);
  std::size_t longest = grid.caption.size();
  for (std::string const& note : grid.notes) longest = std::max(longest, note.size());
  const long width = std::max(right + 24, 32 + 8 * static_cast<long>(longest));
  const long height = bottom + 20 + note_height * static_cast<long>(grid.notes.size());

  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(width) + "\" height=\"" +
                    std::to_string(height) + "\" viewBox=\"0 0 " + std::to_string(width) + " " +
                    std::to_string(height) + "\" font-family=\"monospace\">\n<title>" +
                    detail::escape_xml(grid.caption) + "</title>\n" +
                    R"(<style>
.paper { fill: #ffffff }
.block { stroke: #1f2328; fill-opacity: 0.35 }
.hatch { stroke: #1f2328; stroke-opacity: 0.45 }
text { fill: #1f2328 }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117 }
  .block, .hatch { stroke: #f0f6fc }
  text { fill: #f0f6fc }
}
</style>
)";
  if (grid.terms)
    svg +=
        "<defs><pattern id=\"hatch\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
        "<path class=\"hatch\" d=\"M0 8L8 0\"/></pattern></defs>\n";
  svg += detail::svg_rectangle("class=\"paper\"", 0, 0, width, height);
  svg += detail::svg_text(16, 20, "start", grid.caption);

  const auto place = [](index_t at, index_t extent, long from, long to) {
    return from + std::lround(static_cast<double>(to - from) * static_cast<double>(at) / static_cast<double>(extent));
  };
  if (grid.has_columns && !grid.cells.empty())
    for (const interval column : grid.columns) {
      const auto from = place(column.begin, grid.width, left, right);
      const auto to = place(column.end(), grid.width, left, right);
      svg +=
          detail::svg_text((from + to) / 2, top - 10, "middle", detail::index_range(column), 9 * (to - from) / 10, 11);
    }
  for (std::size_t r = 0; r < grid.rows.size() && !grid.cells.empty(); ++r) {
    const auto from = place(grid.rows[r].begin, grid.height, top, bottom);
    const auto to = place(grid.rows[r].end(), grid.height, top, bottom);
    const long middle = (from + to) / 2;
    if (grid.has_rows)
      svg += detail::svg_text(left - 6, middle, "end", detail::index_range(grid.rows[r]), left - 8,
                              std::min(11L, to - from));
    for (std::size_t c = 0; c < grid.columns.size(); ++c) {
      auto const& cell = grid.cells[r * grid.columns.size() + c];
      const auto begin = place(grid.columns[c].begin, grid.width, left, right);
      const auto end = place(grid.columns[c].end(), grid.width, left, right);
      const int hue = 360 * cell.first / mesh.sizes.devices();
      svg += detail::svg_rectangle("class=\"block\" fill=\"hsl(" + std::to_string(hue) + ",70%,50%)\"", begin, from,
                                   end, to);
      if (grid.terms) svg += detail::svg_rectangle("fill=\"url(#hatch)\"", begin, from, end, to);
      svg += detail::svg_text((begin + end) / 2, middle, "middle", cell.label, 9 * (end - begin) / 10,
                              std::min(14L, to - from));
    }
  }
  for (std::size_t i = 0; i < grid.notes.size(); ++i)
    svg += detail::svg_text(16, bottom + 20 + note_height * static_cast<long>(i), "start", grid.notes[i]);
  return svg + "</svg>\n";
}

/// The image of a layout of a program's mesh.
template <device_mesh Mesh, layout_word Layout, int Rank>
std::string draw_svg(shape<Rank> const& extents) {
  return draw_svg(named<Mesh>(), placements_of<Mesh, Layout>, extents);
}

}  // namespace tessera
