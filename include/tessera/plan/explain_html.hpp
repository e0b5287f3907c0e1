#pragma once

#include <tessera/core/draw_svg.hpp>
#include <tessera/plan/explanation.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

namespace detail {

inline constexpr std::string_view html_style = R"(
:root {
  --paper: #ffffff; --ink: #1f2328; --faint: #6b7280; --line: #d8dce2; --band: #f5f6f8;
  --forward: #3b7dd8; --backward: #d9822b; --messages: #2f9e6e;
  --gather: #8bbf3f; --reduction: #9a5bd0; --update: #8a8f98;
}
@media (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --ink: #e6edf3; --faint: #9198a1; --line: #30363d; --band: #161b22; }
}
body {
  margin: 2rem auto; max-width: 84rem; padding: 0 1.5rem;
  background: var(--paper); color: var(--ink); font: 14px/1.45 system-ui, sans-serif;
}
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
.under { color: var(--faint); margin: 0 0 1.25rem; }
.sums { display: flex; flex-wrap: wrap; gap: .5rem; }
.sums div { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .8rem; }
.sums b { display: block; font-size: 1.1rem; }
.sums span, .key { color: var(--faint); font-size: .85rem; }
.key span { margin-right: 1.2rem; }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--faint); font-size: 12px; }
.lane { fill: var(--band); }
.axis { stroke: var(--line); }
.forward { fill: var(--forward); background: var(--forward); }
.backward { fill: var(--backward); background: var(--backward); }
.messages { fill: var(--messages); background: var(--messages); }
.gather { fill: var(--gather); background: var(--gather); }
.reduction { fill: var(--reduction); background: var(--reduction); }
.update { fill: var(--update); background: var(--update); }
.held { fill: var(--forward); fill-opacity: .25; stroke: var(--forward); }
.peak { stroke: var(--backward); stroke-dasharray: 6 4; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
table { font-size: .9em; }
th, td { padding: .3rem .45rem; border-bottom: 1px solid var(--line); vertical-align: top; text-align: left; }
th { color: var(--faint); font-weight: 600; }
th.n, td.n { text-align: right; white-space: nowrap; }
td.name, td.where { font-family: ui-monospace, monospace; font-size: .85rem; }
td.where { white-space: nowrap; }
td.small { color: var(--faint); font-size: .85rem; min-width: 13rem; }
tr.all td { font-weight: 600; border-bottom: 0; }
.share { display: block; height: 3px; margin: 2px 0 0 auto; border-radius: 2px; }
pre { background: var(--band); padding: 1rem; overflow-x: auto; border-radius: 6px; }
)";

inline std::string decimal(double value, int decimals = 1) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// What runs when, in three lanes, and memory below on the same axis.
class html_chart {
 public:
  explicit html_chart(explanation const& e) : e_(e), end_(e.timeline.empty() ? 0 : e.timeline.back().end) {
    for (auto const& part : e.timeline) end_ = std::max(end_, part.end);
  }

  std::string lanes() const {
    constexpr std::string_view names[] = {"compute", "layers' messages", "beside"};
    std::string svg = begin(3 * (lane_height + gap) + axis_height);
    for (std::size_t lane = 0; lane < 3; ++lane) {
      svg += rectangle("lane", 0, end_, top_of(lane), lane_height, "");
      svg += text(left - 8, top_of(lane) + lane_height / 2 + 4, "end", names[lane]);
    }
    for (auto const& part : e_.timeline)
      if (part.end > part.begin)
        svg +=
            rectangle(kind_text(part.what), part.begin, part.end, top_of(lane_of(part)), lane_height, title_of(part));
    return svg + axis(3 * (lane_height + gap)) + "</svg>\n";
  }

  std::string memory() const {
    constexpr double height = 140;
    double most = static_cast<double>(e_.memory->peak());
    for (auto const& moment : e_.moments) most = std::max(most, static_cast<double>(moment.bytes));
    const auto y = [&](index_t bytes) {
      return decimal(top + height - height * static_cast<double>(bytes) / std::max(most, 1.0));
    };
    std::string svg = begin(height + gap + axis_height);
    svg += rectangle("lane", 0, end_, top, height, "");
    std::string path = "M" + decimal(left) + " " + decimal(top + height);
    std::string before = y(e_.moments.front().bytes);
    for (auto const& moment : e_.moments) {
      path += "L" + decimal(x(moment.seconds)) + " " + before;
      before = y(moment.bytes);
      path += "L" + decimal(x(moment.seconds)) + " " + before;
    }
    path += "L" + decimal(x(end_)) + " " + decimal(top + height) + "Z";
    svg += "<path class=\"held\" d=\"" + path + "\"/>\n";
    svg += "<path class=\"peak\" d=\"M" + decimal(left) + " " + y(e_.memory->peak()) + "H" + decimal(left + width) +
           "\"/>\n";
    svg += text(left - 8, top + 10, "end", bytes_text(most));
    svg += text(left - 8, top + height, "end", "0");
    return svg + axis(height + gap) + "</svg>\n";
  }

 private:
  static constexpr double left = 120;
  static constexpr double width = 1060;
  static constexpr double top = 4;
  static constexpr double lane_height = 34;
  static constexpr double gap = 6;
  static constexpr double axis_height = 22;

  static double top_of(std::size_t lane) { return top + static_cast<double>(lane) * (lane_height + gap); }
  static std::size_t lane_of(timed_part const& part) {
    using enum timed_part::kind;
    return part.what == messages ? 1 : part.what == reduction || part.what == gather ? 2 : 0;
  }
  double x(double seconds) const { return left + width * seconds / std::max(end_, 1e-30); }
  static std::string begin(double height) {
    return "<svg viewBox=\"0 0 " + decimal(left + width + 20, 0) + " " + decimal(height + 2 * top, 0) + "\">\n";
  }
  static std::string text(double at, double y, std::string_view anchor, std::string_view words) {
    return "<text x=\"" + decimal(at) + "\" y=\"" + decimal(y) + "\" text-anchor=\"" + std::string(anchor) + "\">" +
           escape_xml(words) + "</text>\n";
  }
  std::string rectangle(std::string_view kind, double from, double to, double y, double height,
                        std::string const& title) const {
    std::string out = "<rect class=\"" + std::string(kind) + "\" x=\"" + decimal(x(from), 2) + "\" y=\"" + decimal(y) +
                      "\" width=\"" + decimal(std::max(0.3, x(to) - x(from)), 2) + "\" height=\"" + decimal(height) +
                      "\"";
    return out + (title.empty() ? "/>\n" : "><title>" + escape_xml(title) + "</title></rect>\n");
  }
  std::string axis(double y) const {
    std::string out =
        "<path class=\"axis\" d=\"M" + decimal(left) + " " + decimal(top + y) + "H" + decimal(left + width) + "\"/>\n";
    for (int i = 0; i <= 4; ++i)
      out += text(left + width * i / 4, top + y + 16,
                  i == 0   ? "start"
                  : i == 4 ? "end"
                           : "middle",
                  seconds_text(end_ * i / 4));
    return out;
  }
  std::string title_of(timed_part const& part) const {
    using enum timed_part::kind;
    std::string of;
    if (part.what == reduction) {
      auto const& bucket = e_.buckets[static_cast<std::size_t>(part.of)];
      of = " of " + std::to_string(bucket.gradients) + (bucket.gradients == 1 ? " gradient, " : " gradients, ") +
           bytes_text(bucket.bytes) + " over " + bucket.axes;
    } else if (part.what != update) {
      auto const& layer = e_.layers[static_cast<std::size_t>(part.of)];
      of = (layer.path.empty() ? " " : " " + layer.path + " ") + layer.layer;
    }
    return kind_text(part.what) + of + ": " + seconds_text(part.end - part.begin);
  }

  explanation const& e_;
  double end_;
};

inline std::string html_table(explanation const& e) {
  const auto rows = table_of(e);
  double most = 0;
  for (auto const& layer : e.layers) most = std::max({most, layer.forward, layer.backward});
  std::string out = "<div class=\"wide\"><table>\n<thead><tr>";
  const auto is_number = [](std::size_t column) {
    return column >= first_number && column + 1 < std::tuple_size_v<table_row>;
  };
  for (std::size_t c = 0; c < rows[0].size(); ++c)
    out += (is_number(c) ? "<th class=\"n\">" : "<th>") + escape_xml(rows[0][c]) + "</th>";
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const bool is_layer = r <= e.layers.size();
    out += is_layer ? "<tr>" : "<tr class=\"all\">";
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      constexpr char const* kinds[] = {"where", "name", "where", "where", "where"};
      out += "<td class=\"" +
             std::string(c < first_number ? kinds[c]
                         : is_number(c)   ? "n"
                                          : "small") +
             "\">" + escape_xml(rows[r][c]);
      if (is_layer && (c == 5 || c == 6) && most > 0) {
        auto const& layer = e.layers[r - 1];
        out += "<span class=\"share " + std::string(c == 5 ? "forward" : "backward") +
               "\" style=\"width:" + decimal(100 * (c == 5 ? layer.forward : layer.backward) / most, 0) + "%\"></span>";
      }
      out += "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

/// A table of text; of numbers those columns from `first` to `last`.
template <class Row>
std::string html_rows(std::vector<Row> const& rows, std::size_t first, std::size_t last) {
  std::string out = "<div class=\"wide\"><table>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::string tag = r == 0 ? "th" : "td";
    out += r == 0 ? "<thead><tr>" : "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const bool number = c >= first && c <= last;
      out += "<" + tag + (number ? " class=\"n\">" : r > 0 ? " class=\"name\">" : ">") + escape_xml(rows[r][c]) + "</" +
             tag + ">";
    }
    out += r == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

inline std::string html_key(std::vector<std::array<std::string_view, 2>> const& names) {
  std::string out = "<p class=\"key\">";
  for (auto const& [kind, name] : names)
    out += "<span><i class=\"" + std::string(kind) + "\"></i>" + escape_xml(name) + "</span>";
  return out + "</p>\n";
}

}  // namespace detail

inline std::string explanation::html() const {
  using detail::escape_xml;
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>A training "
      "step</title>\n<style>" +
      std::string(detail::html_style) + "</style>\n</head>\n<body>\n<h1>A training step</h1>\n<p class=\"under\">" +
      escape_xml("mesh " + mesh + ", machine " + machine + ", " + std::to_string(settings.parts) +
                 (settings.parts == 1 ? " part" : " parts") + " of a batch, elements of " +
                 std::to_string(settings.element_bytes) + " bytes") +
      "</p>\n<div class=\"sums\">\n";
  for (auto const& [name, value] : detail::sums_of(*this))
    out += "<div><span>" + escape_xml(name) + "</span><b>" + escape_xml(value) + "</b></div>\n";
  out += "</div>\n";
  if (!timeline.empty()) {
    const detail::html_chart chart(*this);
    out += "<h2>What runs when</h2>\n" + chart.lanes() +
           detail::html_key({{"forward", "forward"},
                             {"backward", "backward"},
                             {"messages", "messages that a layer waits for"},
                             {"reduction", "reductions of gradients"},
                             {"gather", "gathers of parameters"},
                             {"update", "update"}});
    if (!moments.empty())
      out += "<h2>Memory over time</h2>\n" + chart.memory() +
             detail::html_key({{"forward", "parameters, gradients, optimizer, and what layers keep for backward"},
                               {"backward", "the most of a step, with all that is there for a moment"}});
  }
  out += "<h2>Layers</h2>\n" + detail::html_table(*this);
  if (others && !others->runners_up.empty())
    out += "<h2>Runners-up</h2>\n<p class=\"under\">The best plan that cuts a layer in another way, and by how much its "
           "step is longer, by the cost of the search.</p>\n" +
           detail::html_rows(detail::table_of(others->runners_up), 4, 4);
  if (others && !others->plans.empty())
    out += "<h2>The best plans</h2>\n" + detail::html_rows(detail::table_of(others->plans), 0, 3);
  return out + "<h2>Model</h2>\n<pre>" + escape_xml(model) + "</pre>\n</body>\n</html>\n";
}

}  // namespace tessera
