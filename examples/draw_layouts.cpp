// Draws the layouts of docs/layouts.md and works out its table of routes: the files of docs/drawings.
//
// run: 1

#include "route.hpp"

#include <tessera/core/draw_svg.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

namespace ts = tessera;

namespace {

struct dp : ts::axis<2> {};
struct tp : ts::axis<4> {};
using world = ts::mesh<dp, tp>;

/// The steps that take least time for a small and a large tensor, and what each would take for the other.
std::string regimes() {
  constexpr double latency = 1e-6;
  constexpr double bandwidth = 1e10;
  const auto mesh = ts::parse_mesh("x=2,y=4");
  const auto net = ts::uniform_links<8>({latency, 1 / bandwidth});
  const std::array<ts::shape<2>, 2> sizes{{{{8, 8}}, {{4096, 4096}}}};
  const auto microseconds = [](double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", 1e6 * seconds);
    return std::string(text);
  };

  std::vector<std::vector<std::string>> lines{
      {"from", "to", "elements", "steps", "messages", "bytes", "us", "other's us"}};
  const std::array<std::array<char const*, 2>, 5> changes{{{"[(x*y),-]", "[-,(x*y)]"},
                                                           {"[x,y]", "[-,x]"},
                                                           {"[x,y]", "[y,-]"},
                                                           {"[(y*x),-]", "[-,y]"},
                                                           {"[-,-] partial(y)", "[-,-]"}}};
  for (auto const& [before, after] : changes) {
    const auto from = ts::parse_layout(mesh, before).value;
    const auto to = ts::parse_layout(mesh, after).value;
    std::vector<routes::description<8>> found;
    for (auto const& size : sizes) found.push_back(routes::describe<8, 2>(mesh, net, size, 4, from, to));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto const& chosen = found[i];
      std::string steps;
      for (auto const& s : chosen.steps)
        steps += (steps.empty() ? "" : ", ") + s.kind + (s.along.empty() ? "" : " " + s.along);
      lines.push_back({i == 0 ? before : "", i == 0 ? after : "",
                       std::to_string(sizes[i][0]) + " x " + std::to_string(sizes[i][1]), steps,
                       std::to_string(chosen.total.messages), std::to_string(4 * chosen.total.received),
                       microseconds(chosen.total.seconds),
                       microseconds(seconds_of(mesh.sizes, net, sizes[i], 4, found[1 - i].route))});
    }
  }
  return routes::table(lines, 4);
}

/// All files by name.
std::map<std::string, std::string> drawings() {
  using ts::column, ts::layout, ts::partial, ts::row, ts::shape, ts::shard;
  std::map<std::string, std::string> files;
  // [svg]
  files["rows_and_columns.svg"] = ts::draw_svg<world, layout<row<dp>, column<tp>>>(shape<2>{{10, 6}});
  files["columns.svg"] = ts::draw_svg<world, column<tp>>(shape<2>{{10, 6}});
  files["order_dp_tp.svg"] = ts::draw_svg<world, shard<0, dp, tp>>(shape<2>{{10, 6}});
  files["order_tp_dp.svg"] = ts::draw_svg<world, shard<0, tp, dp>>(shape<2>{{10, 6}});
  files["partial.svg"] = ts::draw_svg<world, layout<row<dp>, partial<tp>>>(shape<2>{{10, 6}});
  files["short.svg"] = ts::draw_svg<world, shard<0, dp, tp>>(shape<1>{{5}});
  // [svg]
  // [text]
  files["text.txt"] = ts::draw<world, layout<row<dp>, column<tp>>>(shape<2>{{10, 6}}) + "\n" +
                      ts::draw<world, layout<row<dp>, partial<tp>>>(shape<2>{{10, 6}});
  // [text]
  files["regimes.txt"] = regimes();
  return files;
}

/// The differences between a folder and the files that belong there.
int differences(std::filesystem::path const& folder, std::map<std::string, std::string> const& files) {
  int faults = 0;
  const auto fault = [&](std::string const& text) {
    std::cerr << (folder / text).string() << "; write the files anew with draw_layouts --write " << folder.string()
              << "\n";
    ++faults;
  };
  for (auto const& [name, content] : files) {
    std::ostringstream found;
    found << std::ifstream(folder / name).rdbuf();
    if (!std::filesystem::exists(folder / name))
      fault(name + " is missing");
    else if (found.str() != content)
      fault(name + " differs from what this program draws");
  }
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    if (files.count(entry.path().filename().string()) == 0)
      fault(entry.path().filename().string() + " is not drawn by this program");
  return faults;
}

}  // namespace

int main(int argc, char** argv) {
  std::string write;
  std::string check;
  CLI::App app{"Draws the layouts of docs/layouts.md and works out its table of routes; prints those that are text."};
  app.add_option("--write", write, "Write the files into this folder instead")->check(CLI::ExistingDirectory);
  app.add_option("--check", check, "Fail where the files of this folder differ instead")->check(CLI::ExistingDirectory);
  CLI11_PARSE(app, argc, argv);

  const auto files = drawings();
  for (auto const& [name, content] : files) {
    if (!write.empty())
      std::ofstream(std::filesystem::path(write) / name) << content;
    else if (check.empty() && name.ends_with(".txt"))
      std::cout << content << "\n";
  }
  return check.empty() || differences(check, files) == 0 ? 0 : 1;
}
