#include "product_plans.hpp"
#include "support/peer_cases.hpp"

#include <cstdio>

namespace {

using namespace tessera;
using peer_cases::layout_of;
using peer_cases::peer_case;
using peer_cases::shape_of;
using product_plans::convolution;
using product_plans::matrix_product;
using product_plans::planner;
using tessera::index_t;

// The meshes of the cases, with as many axes as a mesh that was read from text.
template <int Position, int Size>
struct numbered : axis<Size> {};
template <int First, int Second>
using two_axes = mesh<numbered<0, First>, numbered<1, Second>, numbered<2, 1>, numbered<3, 1>, numbered<4, 1>,
                      numbered<5, 1>, numbered<6, 1>, numbered<7, 1>>;

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
  peer_cases::check_bytes(c, ours);
  return "| `" + c.name + "` | " + c.bytes_text(ours) + " | " + std::to_string(bound) + " | " + c.best_peer_text() +
         " | " + steps_text(c.grid, r) + " |\n";
}

template <int Rank>
product_plans::plans plans_of(planner<8, Rank> const& p, peer_case const& c) {
  using namespace product_plans;
  const auto number = [&](tensor_name t, std::string const& text) { return p.number(t, layout_of(c, text)); };
  if (c.phase == "fwd")
    return p.forward(number(a, c.in.at(0)), number(b, c.in.at(1)), number(product_plans::c, c.out.at(0)));
  REQUIRE(c.phase == "fwdbwd");
  return p.forward_and_backward(
      {number(a, c.in.at(1)), number(b, c.in.at(2)), number(product_plans::c, c.in.at(0))},
      {number(a, c.out.at(1)), number(b, c.out.at(2)), number(product_plans::c, c.out.at(0))});
}

/// One row of the tables of products.
template <int Rank>
std::string product_row(planner<8, Rank> const& p, peer_case const& c) {
  const auto all = plans_of(p, c);
  const int products = c.phase == "fwd" ? 1 : 3;
  REQUIRE(all.begin()->first == products);
  auto const& [work, plan] = product_plans::least_work(all, c.best_peer.value_or(product_plans::impossible));
  peer_cases::check_bytes(c, plan.bytes);
  std::string steps;
  for (auto const& m : plan.moves)
    if (const std::string text = m.halo ? "halo" : steps_text(c.grid, p.route(m)); !text.empty() && text != "slice")
      steps += (steps.empty() ? "" : "; ") + std::string(m.name) + ": " + text;
  char times[16];
  std::snprintf(times, sizeof times, "%.2f", static_cast<double>(work) / products);
  return "| `" + c.name + "` | " + c.phase + " | " + c.bytes_text(plan.bytes) + " | " + times + " | " +
         c.best_peer_text() + " | " + std::to_string(all.begin()->second.bytes) + " | " + steps + " |\n";
}

constexpr char const* product_head =
    " | phase | bytes | work | best peer | bytes at work 1 | steps |\n|---|---|---|---|---|---|---|\n";

/// The table of products, whose planners `plan_for(case, a, b)` makes for operands of these extents.
template <int Rank, class PlanFor>
std::string product_table(std::string const& what, std::vector<peer_case> const& all, PlanFor plan_for) {
  std::string table = "| " + what + product_head;
  std::map<std::string, planner<8, Rank>> planners;
  for (auto const& c : all) {
    CAPTURE(c.name);
    CAPTURE(c.phase);
    // The shapes of the operands are the last two; the name ends with the layouts.
    const auto a = shape_of<Rank>(c.shapes.at(c.shapes.size() - 2));
    const auto b = shape_of<Rank>(c.shapes.back());
    const std::string key = c.name.substr(0, c.name.rfind('/')) + to_string(c.grid) + to_string(a) + to_string(b);
    auto found = planners.find(key);
    if (found == planners.end()) found = planners.try_emplace(key, c.grid.sizes, plan_for(c, a, b)).first;
    table += product_row(found->second, c);
  }
  return table;
}

/// `c/conv3x3s2/H` is a convolution of windows of 3 x 3 with stride 2, padded by half a window.
conv2d_geometry geometry_of(std::string const& name) {
  int kernel = 0;
  int stride = 0;
  REQUIRE(std::sscanf(name.c_str(), "c/conv%dx%*ds%d/", &kernel, &stride) == 2);
  const pair2d padding{kernel / 2, kernel / 2};
  return {{kernel, kernel}, {stride, stride}, padding, padding, {1, 1}, 1};
}

}  // namespace

TEST_CASE("changes of layout take no more bytes than the best peer's, and no more than must be moved") {
  std::string table = "| change | bytes | bound | best peer | steps |\n|---|---|---|---|---|\n";
  const auto all = peer_cases::read("f/");
  if (all.empty()) return;
  for (auto const& c : all) {
    CAPTURE(c.name);
    table += parse_layout(c.grid, c.in.at(0)).rank == 3 ? change_row<3>(c) : change_row<2>(c);
  }
  peer_cases::check_page("changes", table);
}

TEST_CASE("products of matrices take no more bytes than the best peer's") {
  const auto all = peer_cases::read("a/mm");
  if (all.empty()) return;
  peer_cases::check_page("products",
                         product_table<2>("product", all, [](peer_case const&, shape<2> const& a, shape<2> const& b) {
                           return matrix_product<8>(a[0], a[1], b[1]);
                         }));
}

TEST_CASE("convolutions take no more bytes than the best peer's") {
  const auto all = peer_cases::read("c/conv");
  if (all.empty()) return;
  using line = two_axes<8, 1>;
  using grid = two_axes<2, 4>;
  peer_cases::check_page("convolutions", product_table<4>("convolution", all,
                                                          [](peer_case const& c, shape<4> const& x, shape<4> const& w) {
                                                            const auto g = geometry_of(c.name);
                                                            if (c.grid.sizes == line::value)
                                                              return convolution<line>(x, w, g);
                                                            REQUIRE(c.grid.sizes == grid::value);
                                                            return convolution<grid>(x, w, g);
                                                          }));
}

TEST_CASE("where no peer has the best plan, it is found") {
  const auto line = parse_mesh("x=8");
  const planner<8, 2> p(line.sizes, matrix_product<8>(1024, 1024, 1024));
  const auto bytes = [&](char const* a, char const* b, char const* c) {
    const auto number = [&](product_plans::tensor_name t, char const* text) {
      return p.number(t, parse_layout(line, text).value);
    };
    return p.forward(number(product_plans::a, a), number(product_plans::b, b), number(product_plans::c, c)).at(1).bytes;
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
