#pragma once

#include "support/shared_cases.hpp"

#include <tessera/core/layout_text.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

/// What other systems send (the shared file peer_collectives.json), and the page with the tables of what we send.
namespace peer_cases {

using tessera::index_t;

struct peer_case {
  std::string name;
  std::string phase;
  tessera::named_mesh<8> grid;
  std::vector<std::string> shapes;
  std::vector<std::string> in;
  std::vector<std::string> out;
  std::optional<index_t> best_peer;  ///< bytes; none where no peer's result is right

  bool is_beaten_by(index_t bytes) const { return best_peer && bytes < *best_peer; }
  bool beats(index_t bytes) const { return best_peer && bytes > *best_peer; }
  std::string best_peer_text() const { return best_peer ? std::to_string(*best_peer) : "none"; }
  /// Bytes, in bold where they are fewer than the best peer's, in italics where they are more.
  std::string bytes_text(index_t bytes) const {
    const std::string mark = is_beaten_by(bytes) ? "**" : beats(bytes) ? "_" : "";
    return mark + std::to_string(bytes) + mark;
  }
};

/// Lists of shapes and of layouts, in brackets each: `([8, 4], [4])` has two. `R` is a layout without cuts.
inline std::vector<std::string> bracketed(nlohmann::json const& list) {
  static const std::regex pattern(R"(\[[^\[\]]*\]|\bR\b)");
  const std::string text = list.is_string() ? list.get<std::string>() : list.dump();
  std::vector<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) found.push_back(i->str());
  return found;
}

template <int Rank>
tessera::shape<Rank> shape_of(std::string const& text) {
  tessera::shape<Rank> extents{};
  std::istringstream in(text);
  char between = 0;
  for (int d = 0; d < Rank; ++d) in >> between >> extents[d];
  REQUIRE(in);
  return extents;
}

inline tessera::placements<8> layout_of(peer_case const& c, std::string const& text) {
  return text == "R" ? tessera::placements<8>{} : parse_layout(c.grid, text).value;
}

/// The cases whose name begins so, none if there is no such file.
inline std::vector<peer_case> read(std::string const& prefix) {
  const auto file = shared_cases::read("peer_collectives.json");
  std::vector<peer_case> found;
  if (!file) return found;
  for (auto const& entry : file->at("cases")) {
    const std::string name = entry.at("case");
    if (name.rfind(prefix, 0) != 0) continue;
    std::string axes;
    for (auto const& [axis, size] : entry.at("mesh").items())
      axes += (axes.empty() ? "" : ",") + axis + "=" + std::to_string(size.get<int>());
    auto const& both = entry.at("layouts");
    auto const& best = entry.at("best_peer_wire_bytes");
    found.push_back({name, entry.at("phase"), tessera::parse_mesh(axes), bracketed(entry.at("shapes")),
                     bracketed(both.at("inp")), bracketed(both.at("out")),
                     best.is_null() ? std::nullopt : std::optional(best.get<index_t>())});
  }
  CHECK(!found.empty());
  return found;
}

/// Checks that a case takes no more bytes than the best peer's.
inline void check_bytes(peer_case const& c, index_t bytes) {
  CAPTURE(c.name);
  CAPTURE(c.phase);
  CAPTURE(bytes);
  CHECK(!c.beats(bytes));
}

/// Compares a table with that after its name in docs/reference/budgets.md, or writes it there if the environment
/// variable TESSERA_REFRESH is set.
inline void check_page(std::string const& name, std::string const& table) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "../../docs/reference/budgets.md";
  std::ifstream in(path);
  REQUIRE(in);
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  const std::string marker = "<!-- table: " + name + " -->\n";
  const std::size_t found = page.find(marker);
  REQUIRE(found != std::string::npos);
  const std::size_t begin = found + marker.size();
  std::size_t end = begin;
  while (end < page.size() && page[end] == '|') end = page.find('\n', end) + 1;
  if (std::getenv("TESSERA_REFRESH") != nullptr)
    std::ofstream(path) << page.substr(0, begin) << table << page.substr(end);
  else if (page.compare(begin, end - begin, table) != 0)
    FAIL_CHECK(
        "docs/reference/budgets.md differs from what is computed; run this with TESSERA_REFRESH=1. The table of ", name,
        ":\n", table);
}

}  // namespace peer_cases
