// Prints the steps from one layout of a tensor to another, and what they cost. Needs no launcher.
//
// run: 1 --mesh x=2,y=4 --shape 1024x1024 --from "[x,y]" --to "[y,x]" --draw

#include "route.hpp"

#include <tessera/core/draw.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>

namespace ts = tessera;

namespace {

struct request {
  std::string mesh;
  std::string shape;
  std::string from;
  std::string to;
  std::string latency;
  std::string bandwidth;
  ts::index_t element_bytes = 4;
  bool json = false;
  bool draw = false;
};

double positive_number(std::string const& text, std::string const& option) {
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (std::exception const&) {
    used = 0;
  }
  // The cost of a byte is the reciprocal of a bandwidth, so that has to be a number too.
  if (used == 0 || used != text.size() || !(number > 0) || !std::isfinite(number) || !std::isfinite(1 / number))
    throw ts::error("'" + text + "' in " + option, "a positive number",
                    "write a number such as 1e-6 for all axes, or one for each axis: x=2e-6,y=1e-6");
  return number;
}

/// What lies between the commas of a text; those in the arguments of a name, as in `pair<x,y>`, are its own.
std::vector<std::string> between_commas(std::string const& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '<' || c == '(') - (c == '>' || c == ')');
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// Reads `1e-6`, or `x=2e-6,y=1e-6`, which names every axis of the mesh; `missing` for each axis where the text is
/// empty.
std::array<double, 8> per_axis(ts::named_mesh<8> const& mesh, std::string const& text, std::string const& option,
                               double missing) {
  std::array<double, 8> values;
  if (text.empty() || text.find('=') == std::string::npos) {
    values.fill(text.empty() ? missing : positive_number(text, option));
    return values;
  }
  unsigned named = 0;
  for (std::string const& part : between_commas(text)) {
    const std::string name = part.substr(0, part.rfind('='));
    const int axis = mesh.find(name);
    if (axis < 0 || part.size() == name.size() || (named >> axis & 1) != 0)
      throw ts::error("'" + part + "' in " + option, "NAME=NUMBER once for each axis of the mesh " + to_string(mesh),
                      "write it as in x=2e-6,y=1e-6");
    named |= 1u << axis;
    values[static_cast<std::size_t>(axis)] = positive_number(part.substr(name.size() + 1), option);
  }
  for (int a = 0; a < 8; ++a)
    if (!mesh.name(a).empty() && (named >> a & 1) == 0)
      throw ts::error(option + " " + text + " without the axis " + mesh.name(a),
                      "a number for each axis of the mesh " + to_string(mesh), "add " + mesh.name(a) + "=NUMBER");
  return values;
}

/// Nothing where neither option is given. Where one is, the other costs nothing.
std::optional<ts::mesh_links<8>> links_of(request const& r, ts::named_mesh<8> const& mesh) {
  if (r.latency.empty() && r.bandwidth.empty()) return {};
  const auto latency = per_axis(mesh, r.latency, "--latency", 0);
  const auto bandwidth = per_axis(mesh, r.bandwidth, "--bandwidth", std::numeric_limits<double>::infinity());
  ts::mesh_links<8> net;
  for (std::size_t a = 0; a < 8; ++a) net.along[a] = {latency[a], 1 / bandwidth[a]};
  return net;
}

ts::placements<8> layout_of(ts::named_mesh<8> const& mesh, std::string const& text, int rank) {
  const ts::parsed_layout layout = ts::parse_layout(mesh, text);
  if (layout.rank >= 0 && layout.rank != rank)
    throw ts::error("the layout " + text + " of " + std::to_string(layout.rank) + " dimensions",
                    std::to_string(rank) + ", as many as the shape has",
                    "write one axis or - for each dimension of the shape");
  return layout.value;
}

nlohmann::ordered_json costs(ts::step_cost const& cost, ts::index_t element_bytes, bool timed) {
  nlohmann::ordered_json json{{"received_bytes", cost.received * element_bytes},
                              {"received_elements", cost.received},
                              {"messages", cost.messages}};
  if (timed) json["seconds"] = cost.seconds;
  return json;
}

std::vector<std::string> cells(std::vector<std::string> line, ts::step_cost const& cost, ts::index_t element_bytes,
                               bool timed) {
  for (const ts::index_t number : {cost.received * element_bytes, cost.received, ts::index_t{cost.messages}})
    line.push_back(std::to_string(number));
  if (timed) {
    const double microseconds = 1e6 * cost.seconds;
    char text[32];
    if (microseconds < 1e12)
      std::snprintf(text, sizeof text, "%.3f", microseconds);
    else
      std::snprintf(text, sizeof text, "%.6g", microseconds);
    line.emplace_back(text);
  }
  return line;
}

/// A search looks at each device of each step between any two layouts; that shall not take minutes.
void check_search(ts::named_mesh<8> const& mesh, int rank) {
  double layouts = 0;
  double ways = 1;  // to choose some of the axes and what they cut, one after the other
  const int axes = std::popcount(mesh.sizes.cutting(0xFF));
  for (int chosen = 0; chosen <= axes; ++chosen) {
    layouts += ways;
    ways *= static_cast<double>((axes - chosen) * (rank + chosen)) / (chosen + 1);
  }
  const double work = layouts * mesh.sizes.devices();
  if (work * work > 5e8)
    throw ts::error("a search through " + std::to_string(std::llround(layouts)) + " layouts on " +
                        std::to_string(mesh.sizes.devices()) + " devices",
                    "at most 22000 layouts times devices",
                    "leave out --latency and --bandwidth, or choose fewer axes, devices or dimensions");
}

template <int Rank>
void answer(request const& r, ts::named_mesh<8> const& mesh, std::vector<ts::index_t> const& extents) {
  ts::shape<Rank> shape;
  for (int d = 0; d < Rank; ++d) shape[d] = extents[static_cast<std::size_t>(d)];
  if (shape.size() > std::numeric_limits<ts::index_t>::max() / r.element_bytes / 64)
    throw ts::error("a tensor of " + r.shape + " elements of " + std::to_string(r.element_bytes) + " bytes",
                    "fewer bytes than can be counted", "choose a smaller --shape");
  const ts::placements<8> from = layout_of(mesh, r.from, Rank);
  const ts::placements<8> to = layout_of(mesh, r.to, Rank);
  const std::string change = to_string(mesh, from, Rank) + " to " + to_string(mesh, to, Rank);
  switch (fault_between(from, to)) {
    case ts::route_fault::becomes_partial:
      throw ts::error("a change from " + change, "one that is partial only where the tensor is already",
                      "name what cuts the dimensions in --to, or - to replicate");
    case ts::route_fault::maximum_of_parts:
      throw ts::error("a change from " + change, "sums that are resolved before the maximum is taken",
                      "name what cuts the dimensions in --to, or - to replicate, instead of the partial sum");
    case ts::route_fault::none: break;
  }
  const auto net = links_of(r, mesh);
  if (net) check_search(mesh, Rank);
  const auto route = routes::describe(mesh, net, shape, r.element_bytes, from, to);

  if (r.json) {
    nlohmann::ordered_json json;
    json["mesh"] = nlohmann::ordered_json::object();
    for (int a = 0; a < 8; ++a)
      if (!mesh.name(a).empty()) json["mesh"][mesh.name(a)] = mesh.sizes[a];
    json["shape"] = extents;
    json["element_bytes"] = r.element_bytes;
    json["from"] = to_string(mesh, from, Rank);
    json["to"] = to_string(mesh, to, Rank);
    json["steps"] = nlohmann::ordered_json::array();
    for (auto const& s : route.steps) {
      nlohmann::ordered_json step{{"kind", s.kind},
                                  {"along", s.along.empty() ? std::vector<std::string>{} : between_commas(s.along)},
                                  {"layout", s.layout}};
      step.update(costs(s.cost, r.element_bytes, net.has_value()));
      json["steps"].push_back(step);
    }
    json["total"] = costs(route.total, r.element_bytes, net.has_value());
    json["least_bytes"] = nullptr;
    if (route.least) json["least_bytes"] = *route.least * r.element_bytes;
    if (r.draw) json["drawings"] = {draw_text(mesh, from, shape), draw_text(mesh, to, shape)};
    std::cout << json.dump(2) << "\n";
    return;
  }
  if (r.draw) std::cout << draw_text(mesh, from, shape) << "\n" << draw_text(mesh, to, shape) << "\n";
  if (route.steps.empty()) {
    std::cout << "nothing to do: the layouts are the same\n";
    return;
  }
  std::vector<std::vector<std::string>> lines{{"step", "along", "layout after it", "bytes", "elements", "messages"}};
  if (net) lines[0].emplace_back("microseconds");
  for (auto const& s : route.steps)
    lines.push_back(
        cells({s.kind, s.along.empty() ? "-" : s.along, s.layout}, s.cost, r.element_bytes, net.has_value()));
  if (route.steps.size() > 1) lines.push_back(cells({"total", "", ""}, route.total, r.element_bytes, net.has_value()));
  std::cout << routes::table(lines, 3);
  if (route.least)
    std::cout << "at least: " << *route.least * r.element_bytes << " bytes (what a device wants and does not hold)\n";
  else
    std::cout << "at least: no bound, because partial values are reduced\n";
}

void answer(request const& r) {
  const ts::named_mesh<8> mesh = ts::parse_mesh(r.mesh);
  if (mesh.sizes.devices() > 4096)
    throw ts::error("a mesh of " + std::to_string(mesh.sizes.devices()) + " devices", "at most 4096",
                    "choose a smaller --mesh: every device is looked at");
  const std::vector<ts::index_t> extents = ts::parse_shape(r.shape);
  switch (extents.size()) {
    case 0: return answer<0>(r, mesh, extents);
    case 1: return answer<1>(r, mesh, extents);
    case 2: return answer<2>(r, mesh, extents);
    case 3: return answer<3>(r, mesh, extents);
    case 4: return answer<4>(r, mesh, extents);
    case 5: return answer<5>(r, mesh, extents);
    default: return answer<6>(r, mesh, extents);
  }
}

}  // namespace

int main(int argc, char** argv) {
  request r;
  CLI::App app{
      "Prints the steps from one layout of a tensor to another, and what each costs the device that has most to do.\n"
      "They are the steps that tessera::to takes; with --latency or --bandwidth, those that take the least time.\n"
      "\n"
      "A layout names what cuts each dimension: [x,-] cuts the rows along the mesh axis x, [(x*y),-] along x and then\n"
      "along y, [-,-] replicates. [x,-] partial(y) is a sum whose terms lie along y, partial(y,max) a maximum.\n"};
  app.add_option("--mesh", r.mesh, "Devices along each axis: x=2,y=4")->required();
  app.add_option("--shape", r.shape, "Extents of the tensor: 1024x1024, or scalar")->required();
  app.add_option("--from", r.from, "Layout before: \"[x,-]\"")->required();
  app.add_option("--to", r.to, "Layout after: \"[-,x]\"")->required();
  app.add_option("--latency", r.latency,
                 "Seconds a message takes: 1e-6, or x=2e-6,y=1e-6; 0 where only --bandwidth is given");
  app.add_option("--bandwidth", r.bandwidth,
                 "Bytes a second: 1e9, or x=1e9,y=4e9; unlimited where only --latency is given");
  app.add_option("--element-bytes", r.element_bytes, "Bytes of an element")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--json", r.json, "Print JSON");
  app.add_flag("--draw", r.draw, "Draw which ranks hold which block, before and after");
  try {
    app.parse(argc, argv);
    answer(r);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (ts::error const& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
