#pragma once

#include <tessera/data/durable_file.hpp>
#include <tessera/data/json_text.hpp>
#include <tessera/plan/layer_rows.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace tessera {

/// How a layer is cut, as text.
struct layer_strategy {
  std::string path{};   ///< its place in the model, as parameters are named: `2.branch.0`
  std::string layer{};  ///< its type without split words; `layout`, `sum` and `output` for what has none
  std::vector<std::pair<std::string, std::string>> split{};  ///< axes and what they cut, in mesh order
  std::string input{};                                       ///< layouts, as `parse_layout` reads them
  std::string output{};
  friend bool operator==(layer_strategy const&, layer_strategy const&) = default;
};

/// How a model is cut on a mesh, as text: MindSpore's parallel strategy. A plan without the program that has it.
struct strategy {
  std::string mesh{};              ///< `dp=2,tp=4`
  std::vector<index_t> extents{};  ///< of the input; `dynamic` for what only run time knows
  std::string input{};             ///< its layout
  std::vector<layer_strategy> layers{};
  friend bool operator==(strategy const&, strategy const&) = default;
};

/// The strategy of a model, found or written by hand.
template <class Model, device_mesh Mesh>
strategy strategy_of() {
  using input = typename plan<Model, Mesh>::input;
  const auto mesh = named<Mesh>();
  strategy out{to_string(mesh), {}, to_string(mesh, input::layout, input::rank), {}};
  for (int d = 0; d < input::rank; ++d) out.extents.push_back(input::extents[d]);
  for (auto& row : layer_rows<Model, Mesh>()) {
    layer_strategy layer{std::move(row.path), std::move(row.layer), {}, std::move(row.input), std::move(row.output)};
    for (int a = 0; a < Mesh::axes; ++a)
      if (auto& word = row.split[static_cast<std::size_t>(a)]; !word.empty())
        layer.split.emplace_back(mesh.name(a), std::move(word));
    out.layers.push_back(std::move(layer));
  }
  return out;
}

namespace detail {

inline constexpr std::string_view strategy_format = "tessera strategy";
inline constexpr index_t strategy_version = 1;

inline nlohmann::ordered_json json_of(strategy const& s) {
  using json = nlohmann::ordered_json;
  json out{{"format", strategy_format}, {"version", strategy_version}, {"mesh", s.mesh}};
  out["extents"] = json::array();
  for (const index_t extent : s.extents) out["extents"].push_back(extent == dynamic ? json() : json(extent));
  out["input"] = s.input;
  out["layers"] = json::array();
  for (auto const& layer : s.layers) {
    json split = json::object();
    for (auto const& [axis, word] : layer.split) split[axis] = word;
    out["layers"].push_back({{"path", layer.path},
                             {"layer", layer.layer},
                             {"split", split},
                             {"input", layer.input},
                             {"output", layer.output}});
  }
  return out;
}

/// A member of an object. Throws `json_fault` where it is not there.
inline nlohmann::json const& json_member(nlohmann::json const& object, char const* name) {
  if (!object.is_object()) throw json_fault(short_text(object) + " is no object");
  const auto found = object.find(name);
  if (found == object.end()) throw json_fault(std::string("it has no \"") + name + "\"");
  return *found;
}
inline std::string text_member(nlohmann::json const& object, char const* name) {
  auto const& value = json_member(object, name);
  if (!value.is_string()) throw json_fault(std::string("its \"") + name + "\" is no text");
  return value.get<std::string>();
}
inline nlohmann::json const& list_member(nlohmann::json const& object, char const* name) {
  auto const& value = json_member(object, name);
  if (!value.is_array()) throw json_fault(std::string("its \"") + name + "\" is no list");
  return value;
}

inline layer_strategy layer_from(nlohmann::json const& json, named_mesh<8> const& mesh) {
  layer_strategy layer{text_member(json, "path"),
                       text_member(json, "layer"),
                       {},
                       text_member(json, "input"),
                       text_member(json, "output")};
  auto const& split = json_member(json, "split");
  if (!split.is_object()) throw json_fault("the \"split\" of layer \"" + layer.path + "\" is no object");
  for (auto const& [axis, word] : split.items()) {
    if (mesh.find(axis) < 0)
      throw json_fault("layer \"" + layer.path + "\" is cut along an axis \"" + axis + "\" that the mesh lacks");
    if (!word.is_string())
      throw json_fault("what axis \"" + axis + "\" cuts of layer \"" + layer.path + "\" is no text");
    layer.split.emplace_back(axis, word.get<std::string>());
  }
  std::sort(layer.split.begin(), layer.split.end(),
            [&](auto const& a, auto const& b) { return mesh.find(a.first) < mesh.find(b.first); });
  tessera::parse_layout(mesh, layer.input);
  tessera::parse_layout(mesh, layer.output);
  return layer;
}

/// Throws `json_fault` or `error` where the text is no strategy.
inline strategy strategy_from(std::string_view text) {
  const auto json = parse_json(text);
  if (text_member(json, "format") != strategy_format) throw json_fault("it is of another format");
  if (const index_t version = whole_number(json_member(json, "version")); version != strategy_version)
    throw json_fault("it is of version " + std::to_string(version) + ", and this library reads version " +
                     std::to_string(strategy_version));
  strategy out;
  out.mesh = text_member(json, "mesh");
  const auto mesh = parse_mesh(out.mesh);
  for (auto const& extent : list_member(json, "extents"))
    out.extents.push_back(extent.is_null() ? dynamic : whole_number(extent));
  out.input = text_member(json, "input");
  const int rank = tessera::parse_layout(mesh, out.input).rank;
  if (const int extents = static_cast<int>(out.extents.size()); rank >= 0 && rank != extents)
    throw json_fault("its input has " + std::to_string(extents) + " extents, and a layout of " + std::to_string(rank) +
                     " dimensions");
  for (auto const& layer : list_member(json, "layers")) out.layers.push_back(layer_from(layer, mesh));
  return out;
}

inline std::string extents_text(std::vector<index_t> const& extents) {
  std::string text;
  for (const index_t extent : extents)
    text += (text.empty() ? "" : " x ") + (extent == dynamic ? "?" : std::to_string(extent));
  return text.empty() ? "a scalar" : text;
}
/// The split and the layouts of a layer: `batch by dp, output by tp: [dp,-] to [dp,tp]`.
inline std::string cuts_text(layer_strategy const& layer) {
  std::string text;
  for (auto const& [axis, word] : layer.split) text += (text.empty() ? "" : ", ") + word + " by " + axis;
  return text + (text.empty() ? "" : ": ") + layer.input + " to " + layer.output;
}
inline std::string layer_name(layer_strategy const& layer) {
  return layer.path.empty() ? layer.layer : layer.path + " " + layer.layer;
}

}  // namespace detail

/// Writes a strategy to a file as JSON, aside and renamed, so that a file is there whole or not at all. One rank does
/// it. Throws `error` where the folder cannot be written.
inline void save_strategy(strategy const& s, std::filesystem::path const& path) {
  const std::string text = detail::json_of(s).dump(1) + "\n";
  auto aside = path;
  aside += ".part";
  detail::durable_file file(aside);
  file.append(std::as_bytes(std::span(text)));
  file.finish();
  detail::rename_durably(aside, path);
}
template <class Model, device_mesh Mesh>
void save_strategy(std::filesystem::path const& path) {
  save_strategy(strategy_of<Model, Mesh>(), path);
}

/// Reads what `save_strategy` wrote, here or elsewhere. Throws `error` where the file is not there, cut off, or no
/// strategy.
inline strategy load_strategy(std::filesystem::path const& path) {
  std::error_code fault;
  std::ifstream file(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path, fault) || !file)
    throw error("no strategy file " + path.string() + " that can be read", "a file that save_strategy wrote",
                "check the path and its permissions");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string found;
  try {
    return detail::strategy_from(text);
  } catch (detail::json_fault const& f) {
    found = f.what();
  } catch (error const& e) {
    found = e.what();
    if (found.starts_with("tessera: ")) found.erase(0, 9);
  }
  throw error("the strategy file " + path.string() + " cannot be used: " + found, "a file that save_strategy wrote",
              "save the strategy again, or copy the whole file");
}

/// What differs between two strategies: a line each for the mesh, the input, and each layer that one has and the other
/// has not or has cut otherwise. Each names both, `found` first. None where they are equal.
inline std::vector<std::string> difference(strategy const& found, strategy const& wanted) {
  std::vector<std::string> lines;
  const auto compare = [&](std::string const& what, std::string const& a, std::string const& b) {
    if (a != b) lines.push_back(what + ": found " + a + "; wanted " + b);
  };
  const auto mesh = [](std::string const& text) { return text.empty() ? std::string("one device") : text; };
  compare("mesh", mesh(found.mesh), mesh(wanted.mesh));
  compare("extents of the input", detail::extents_text(found.extents), detail::extents_text(wanted.extents));
  compare("layout of the input", found.input, wanted.input);

  // Layers go by place and type. One that the other model has later was left out; the others were exchanged.
  const auto is_later = [](layer_strategy const& layer, auto from, auto end) {
    return std::any_of(from, end,
                       [&](auto const& other) { return other.path == layer.path && other.layer == layer.layer; });
  };
  auto a = found.layers.begin();
  auto b = wanted.layers.begin();
  while (a != found.layers.end() || b != wanted.layers.end()) {
    const bool have_a = a != found.layers.end();
    const bool have_b = b != wanted.layers.end();
    if (have_a && have_b && a->path == b->path && a->layer == b->layer) {
      compare("layer " + detail::layer_name(*a), detail::cuts_text(*a), detail::cuts_text(*b));
      ++a, ++b;
    } else if (have_a && (!have_b || is_later(*b, a, found.layers.end()))) {
      lines.push_back("layer " + detail::layer_name(*a++) + ": found, not wanted");
    } else if (!have_a || is_later(*a, b, wanted.layers.end())) {
      lines.push_back("layer " + detail::layer_name(*b++) + ": not found, wanted");
    } else {
      lines.push_back("layer: found " + detail::layer_name(*a++) + "; wanted " + detail::layer_name(*b++));
    }
  }
  return lines;
}

/// Checks that a file has the strategy of this program's model: that what a search found before is what it finds now,
/// say. Throws `error` that names the first layers that differ.
template <class Model, device_mesh Mesh>
void check_strategy(std::filesystem::path const& path) {
  const auto lines = difference(load_strategy(path), strategy_of<Model, Mesh>());
  if (lines.empty()) return;
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, lines.size()); ++i) text += "\n  " + lines[i];
  if (lines.size() > most) text += "\n  and " + std::to_string(lines.size() - most) + " more";
  throw error("the strategy in " + path.string() + " is not that of this program:" + text + "\n", "equal strategies",
              "save the file again with save_strategy, or go back to the model or mesh that it has");
}

}  // namespace tessera
