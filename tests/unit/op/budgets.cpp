#include "product_plans.hpp"
#include "support/shared_cases.hpp"

#include <tessera/core/layout_text.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>

namespace {

using namespace tessera;
using nlohmann::json;
using tessera::index_t;

/// What is in brackets, brackets included: `([8, 4], [4])` has two.
std::vector<std::string> bracketed(std::string const& text) {
  static const std::regex pattern(R"(\[[^\]]*\])");
  std::vector<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) found.push_back(i->str());
  return found;
}

template <int Rank>
shape<Rank> shape_of(std::string const& text) {
  shape<Rank> extents{};
  std::istringstream in(text);
  char between = 0;
  for (int d = 0; d < Rank; ++d) in >> between >> extents[d];
  REQUIRE(in);
  return extents;
}

struct peer_case {
  std::string name;
  std::string phase;
  named_mesh<8> grid;
  std::vector<std::string> shapes;
  std::vector<std::string> in;
  std::vector<std::string> out;
  index_t best_peer;
};

/// The cases whose name begins so.
std::vector<peer_case> cases_of(json const& file, std::string const& prefix) {
  std::vector<peer_case> found;
  for (json const& entry : file.at("cases")) {
    const std::string name = entry.at("case");
    if (name.rfind(prefix, 0) != 0) continue;
    std::string axes;
    for (auto const& [axis, size] : entry.at("mesh").items())
      axes += (axes.empty() ? "" : ",") + axis + "=" + std::to_string(size.get<int>());
    json const& both = entry.at("layouts");
    found.push_back({name, entry.at("phase"), parse_mesh(axes), bracketed(entry.at("shapes")),
                     bracketed(both.at("inp")), bracketed(both.at("out")), entry.at("best_peer_wire_bytes")});
  }
  return found;
}

/// Bytes, in bold where they are fewer than the best peer's.
std::string bytes_text(index_t ours, index_t best_peer) {
  return ours < best_peer ? "**" + std::to_string(ours) + "**" : std::to_string(ours);
}

std::string steps_text(named_mesh<8> const& grid, route<8> const& r) {
  std::string text;
  for (auto const& s : r)
    text +=
        (text.empty() ? "" : ", ") + std::string(to_string(s.kind)) + (s.group != 0 ? " " : "") + grid.list(s.group);
  return text;
}

/// One row of the table of changes.
template <int Rank>
std::string change_row(peer_case const& c) {
  const auto extents = shape_of<Rank>(c.shapes.at(0));
  const auto from = parse_layout(c.grid, c.in.at(0));
  const auto to = parse_layout(c.grid, c.out.at(0));
  REQUIRE((from.rank == Rank && to.rank == Rank));
  const auto r = find_route(c.grid.sizes, from.value, to.value, Rank);
  const index_t ours = product_plans::bytes_of(c.grid.sizes, extents, r);
  const index_t bound = 4 * lacking_elements(c.grid.sizes, extents, from.value, to.value);
  CHECK(ours == bound);
  CHECK(ours <= c.best_peer);
  return "| `" + c.name + "` | " + bytes_text(ours, c.best_peer) + " | " + std::to_string(bound) + " | " +
         std::to_string(c.best_peer) + " | " + steps_text(c.grid, r) + " |\n";
}

using planner = product_plans::planner<8>;

product_plans::plans plans_of(planner const& p, peer_case const& c) {
  const auto number = [&](std::string const& text) { return p.number(parse_layout(c.grid, text).value); };
  if (c.phase == "fwd") return p.forward(number(c.in.at(0)), number(c.in.at(1)), number(c.out.at(0)));
  REQUIRE(c.phase == "fwdbwd");
  return p.forward_and_backward({number(c.in.at(1)), number(c.in.at(2)), number(c.in.at(0))},
                                {number(c.out.at(1)), number(c.out.at(2)), number(c.out.at(0))});
}

/// One row of the table of products.
std::string product_row(planner const& p, peer_case const& c) {
  const auto all = plans_of(p, c);
  const int products = c.phase == "fwd" ? 1 : 3;
  REQUIRE(all.begin()->first == products);
  auto const& [work, plan] = product_plans::least_work(all, c.best_peer);
  CHECK(plan.bytes <= c.best_peer);
  std::string steps;
  for (auto const& m : plan.moves)
    if (const std::string text = steps_text(c.grid, p.route(m)); !text.empty() && text != "slice")
      steps += (steps.empty() ? "" : "; ") + std::string(m.name) + ": " + text;
  char times[16];
  std::snprintf(times, sizeof times, "%.2f", static_cast<double>(work) / products);
  return "| `" + c.name + "` | " + c.phase + " | " + bytes_text(plan.bytes, c.best_peer) + " | " + times + " | " +
         std::to_string(c.best_peer) + " | " + std::to_string(all.begin()->second.bytes) + " | " + steps + " |\n";
}

/// Compares a table with that after its name in docs/reference/budgets.md, or writes it there if the environment
/// variable TESSERA_REFRESH is set.
void check_page(std::string const& name, std::string const& table) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "../../../docs/reference/budgets.md";
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

}  // namespace

TEST_CASE("changes of layout take no more bytes than the best peer's, and no more than must be moved") {
  const auto file = shared_cases::read("peer_collectives.json");
  if (!file) return;
  std::string table = "| change | bytes | bound | best peer | steps |\n|---|---|---|---|---|\n";
  const auto all = cases_of(*file, "f/");
  CHECK(!all.empty());
  for (auto const& c : all) {
    CAPTURE(c.name);
    table += parse_layout(c.grid, c.in.at(0)).rank == 3 ? change_row<3>(c) : change_row<2>(c);
  }
  check_page("changes", table);
}

TEST_CASE("products of matrices take no more bytes than the best peer's") {
  const auto file = shared_cases::read("peer_collectives.json");
  if (!file) return;
  std::string table =
      "| product | phase | bytes | work | best peer | bytes at work 1 | steps |\n|---|---|---|---|---|---|---|\n";
  std::map<std::string, planner> planners;
  const auto all = cases_of(*file, "a/mm");
  CHECK(!all.empty());
  for (auto const& c : all) {
    CAPTURE(c.name);
    CAPTURE(c.phase);
    // The shapes of the operands are the last two.
    const auto a = shape_of<2>(c.shapes.at(c.shapes.size() - 2));
    const auto b = shape_of<2>(c.shapes.back());
    const std::string key = to_string(c.grid) + to_string(a) + to_string(b);
    auto found = planners.find(key);
    if (found == planners.end()) found = planners.try_emplace(key, c.grid.sizes, a[0], a[1], b[1]).first;
    table += product_row(found->second, c);
  }
  check_page("products", table);
}

TEST_CASE("where no peer has the best plan, it is found") {
  const auto line = parse_mesh("x=8");
  const planner p(line.sizes, 1024, 1024, 1024);
  const auto bytes = [&](char const* a, char const* b, char const* c) {
    const auto number = [&](char const* text) { return p.number(parse_layout(line, text).value); };
    return p.forward(number(a), number(b), number(c)).at(1).bytes;
  };
  // Peers gather an operand, 3.5 MiB.
  CHECK(bytes("[-,-]", "[x,-]", "[x,-]") == 7 * 131072);
  CHECK(bytes("[-,-]", "[-,x]", "[x,-]") == 7 * 65536);
  // Peers all-reduce the sum, 7 to 10 MiB.
  const auto grid = parse_mesh("x=2,y=4");
  const auto r = find_route(grid.sizes, parse_layout(grid, "[-,-] partial(x) partial(y)").value,
                            parse_layout(grid, "[x,y]").value, 2);
  CHECK(product_plans::bytes_of(grid.sizes, shape<2>{{1024, 1024}}, r) == 7 * 524288);
}
