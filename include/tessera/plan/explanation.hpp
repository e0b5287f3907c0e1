#pragma once

#include <tessera/plan/alternatives.hpp>
#include <tessera/plan/layer_rows.hpp>
#include <tessera/plan/step_timeline.hpp>
#include <tessera/plan/training_memory.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// A collective of a layer.
struct explained_call {
  bool forward = false;  ///< else backward
  std::string kind{};
  std::string axes{};  ///< of its group, as in `dp,tp`
  double bytes = 0;    ///< of its payload on the device that has most
  double seconds = 0;
};

/// A layer of a model on a machine. Bytes are those of a device that has most.
struct explained_layer : layer_row {
  double forward = 0;  ///< seconds, with its collectives
  double backward = 0;
  double messages = 0;  ///< of both, seconds of collectives
  index_t parameter_bytes = 0;
  index_t gradient_bytes = 0;
  index_t kept_bytes = 0;  ///< from forward to backward, where memory is known; a block that several keep counts once
  std::vector<explained_call> calls{};
};

/// Gradients that are reduced together.
struct explained_bucket {
  int gradients = 0;
  std::string axes{};  ///< over which they are summed
  double bytes = 0;
  double seconds = 0;
  bool in_slices = false;  ///< whether each rank gets a slice of the sum (`optimizer_parallel`)
};

/// How much memory there is from a moment on.
struct memory_moment {
  double seconds = 0;
  index_t bytes = 0;
};

/// What is known of a training step before it runs: what each layer does, communicates, takes and keeps, on the device
/// that has most to do. Made by `explain`.
struct explanation {
  std::string model{};    ///< as `spell` writes it
  std::string mesh{};     ///< as in `dp=2,tp=4`
  std::string machine{};  ///< its type
  index_t device_memory = 0;
  step_settings settings{};
  step_price step{};                        ///< that of `price_step`
  std::optional<training_bytes> memory{};   ///< that of `training_memory`, where the extents of a batch are known
  std::vector<explained_layer> layers{};    ///< in order, with layout words and sums
  std::vector<explained_bucket> buckets{};  ///< of the gradients; of a pipeline, whose stages have their own, none
  std::vector<timed_part> timeline{};       ///< see `step_timeline`; of a pipeline none
  /// Of `timeline`: what is there from step to step, and what layers keep; without workspace.
  std::vector<memory_moment> moments{};
  std::optional<plan_alternatives> others{};  ///< where `explain_search` made it

  /// A line for each layer, those of the step and of memory, then those of other plans.
  std::string table() const;
  /// All of it, with seconds and bytes as numbers.
  nlohmann::ordered_json to_json() const;
  /// A page for a browser that needs nothing else: the table, what runs when, memory over time, and other
  /// plans.
  std::string html() const;  // plan/explain_html.hpp
};

namespace detail {

/// A number with three digits or more, and its unit: 1.23 ms.
inline std::string with_unit(double value, double scale, char const* const (&units)[5]) {
  std::size_t unit = 0;
  while (unit + 1 < std::size(units) && std::abs(value) >= 999.5) {
    value /= scale;
    ++unit;
  }
  char text[32];
  const int decimals = unit == 0 && value == std::floor(value) ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return std::string(text) + " " + units[unit];
}
inline std::string seconds_text(double seconds) {
  constexpr char const* units[5] = {"ns", "us", "ms", "s", "ks"};
  return seconds == 0 ? "0" : with_unit(seconds * 1e9, 1000, units);
}
inline std::string bytes_text(double bytes) {
  constexpr char const* units[5] = {"B", "kB", "MB", "GB", "TB"};
  return bytes == 0 ? "0" : with_unit(bytes, 1000, units);
}

inline std::string split_text(named_mesh<8> const& mesh, layer_row const& row) {
  std::string text;
  for (std::size_t a = 0; a < row.split.size(); ++a)
    if (!row.split[a].empty()) text += (text.empty() ? "" : ", ") + row.split[a] + " " + mesh.names[a];
  return text;
}
inline std::string calls_text(std::vector<explained_call> const& calls) {
  std::string text;
  for (bool const forward : {true, false}) {
    bool first = true;
    for (auto const& call : calls) {
      if (call.forward != forward) continue;
      text += first ? (text.empty() ? "" : "; ") + std::string(forward ? "forward " : "backward ") : ", ";
      first = false;
      text += call.kind + "(" + call.axes + ") " + bytes_text(call.bytes) + " " + seconds_text(call.seconds);
    }
  }
  return text;
}

using table_row = std::array<std::string, 11>;
inline constexpr std::size_t first_number = 5;  // columns before are text, and the last one is

/// The heads of columns, a row for each layer, and the sums.
inline std::vector<table_row> table_of(explanation const& e) {
  const auto mesh = parse_mesh(e.mesh);
  std::vector<table_row> rows{{"place", "layer", "split", "input", "output", "forward", "backward", "messages",
                               "parameters", "kept", "collectives"}};
  explained_layer all;
  const auto numbers = [&](table_row row, explained_layer const& layer) {
    row[5] = seconds_text(layer.forward);
    row[6] = seconds_text(layer.backward);
    row[7] = seconds_text(layer.messages);
    row[8] = bytes_text(static_cast<double>(layer.parameter_bytes));
    row[9] = e.memory ? bytes_text(static_cast<double>(layer.kept_bytes)) : "?";
    return row;
  };
  for (auto const& layer : e.layers) {
    rows.push_back(numbers({layer.path, layer.layer, split_text(mesh, layer), layer.input, layer.output}, layer));
    rows.back()[10] = calls_text(layer.calls);
    all.forward += layer.forward;
    all.backward += layer.backward;
    all.messages += layer.messages;
    all.parameter_bytes += layer.parameter_bytes;
    all.kept_bytes += layer.kept_bytes;
  }
  rows.push_back(numbers({"", "all layers"}, all));
  return rows;
}

/// The heads of columns, and a row for each layer: how it could be cut otherwise.
inline std::vector<std::array<std::string, 5>> table_of(std::vector<runner_up> const& runners_up) {
  std::vector<std::array<std::string, 5>> rows{{"place", "layer", "split", "next best", "loses"}};
  for (runner_up const& one : runners_up)
    rows.push_back({one.path, one.layer, one.split, one.lost ? one.other : "none",
                    one.lost ? seconds_text(*one.lost) : ""});
  return rows;
}
/// The same, and a row for each of the best plans.
inline std::vector<std::array<std::string, 5>> table_of(std::vector<ranked_plan> const& plans) {
  std::vector<std::array<std::string, 5>> rows{{"plan", "step", "loses", "kept", "cuts otherwise"}};
  constexpr std::size_t most = 3;
  for (std::size_t p = 0; p < plans.size(); ++p) {
    auto const& changes = plans[p].changes;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, changes.size()); ++i) text += (i > 0 ? "; " : "") + changes[i];
    if (changes.size() > most) text += "; and " + std::to_string(changes.size() - most) + " more";
    rows.push_back({std::to_string(p + 1), seconds_text(plans[p].seconds),
                    seconds_text(plans[p].seconds - plans.front().seconds),
                    bytes_text(static_cast<double>(plans[p].bytes)), text});
  }
  return rows;
}

/// Names and values of a step, for people.
inline std::vector<std::array<std::string, 2>> sums_of(explanation const& e) {
  const auto seconds = [](double x) { return seconds_text(x); };
  const auto bytes = [](index_t x) { return bytes_text(static_cast<double>(x)); };
  std::vector<std::array<std::string, 2>> sums{{"step", seconds(e.step.total())},
                                               {"forward", seconds(e.step.forward)},
                                               {"backward", seconds(e.step.backward)},
                                               {"reductions of gradients", seconds(e.step.reduction)},
                                               {"of these, after backward", seconds(e.step.exposed)},
                                               {"waiting for gathers", seconds(e.step.waiting)},
                                               {"update", seconds(e.step.update)}};
  if (e.step.bubble > 0) sums.push_back({"waiting in the pipeline", seconds(e.step.bubble)});
  if (e.memory) {
    sums.push_back({"peak memory", bytes(e.memory->peak())});
    sums.push_back({"parameters", bytes(e.memory->parameters)});
    sums.push_back({"gradients", bytes(e.memory->gradients)});
    sums.push_back({"optimizer", bytes(e.memory->optimizer)});
    if (e.memory->parts > 1) sums.push_back({"sums of gradients", bytes(e.memory->accumulated)});
    sums.push_back({"activations", bytes(e.memory->activations)});
    sums.push_back({"workspace", bytes(e.memory->workspace)});
  }
  sums.push_back({"memory of a device", bytes(e.device_memory)});
  return sums;
}

inline char const* kind_text(timed_part::kind what) {
  using enum timed_part::kind;
  switch (what) {
    case forward: return "forward";
    case backward: return "backward";
    case messages: return "messages";
    case gather: return "gather";
    case reduction: return "reduction";
    case update: return "update";
  }
  return "";
}

/// Lines of columns; those from `first_number` on, but for the last one, end below each other.
template <class Row>
std::string aligned(std::vector<Row> const& rows, std::size_t first_number) {
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (auto const& row : rows)
    for (std::size_t c = 0; c + 1 < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string text;
  for (auto const& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - std::min(widths[c], row[c].size()), ' ');
      line += (c >= first_number ? space + row[c] : row[c] + space) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace detail

inline std::string explanation::table() const {
  std::string text = detail::aligned(detail::table_of(*this), detail::first_number);
  for (auto const& [name, value] : detail::sums_of(*this)) {
    constexpr std::size_t width = 26;
    text += name + std::string(width - std::min(width, name.size()), ' ') + value + '\n';
  }
  if (others && !others->runners_up.empty()) text += '\n' + detail::aligned(detail::table_of(others->runners_up), 4);
  if (others && !others->plans.empty()) text += '\n' + detail::aligned(detail::table_of(others->plans), 1);
  return text;
}

inline nlohmann::ordered_json explanation::to_json() const {
  using json = nlohmann::ordered_json;
  const auto named = parse_mesh(mesh);
  json out{
      {"model", model}, {"mesh", json::object()}, {"machine", {{"type", machine}, {"memory_bytes", device_memory}}}};
  for (int a = 0; a < 8; ++a)
    if (!named.name(a).empty()) out["mesh"][named.name(a)] = named.sizes[a];
  out["settings"] = {{"unknown", settings.unknown},
                     {"element_bytes", settings.element_bytes},
                     {"parts", settings.parts},
                     {"remembered", settings.remembered},
                     {"overlap", settings.overlap}};
  out["layers"] = json::array();
  for (auto const& layer : layers) {
    json split = json::object();
    for (std::size_t a = 0; a < layer.split.size(); ++a)
      if (!layer.split[a].empty()) split[named.names[a]] = layer.split[a];
    json calls = json::array();
    for (auto const& call : layer.calls)
      calls.push_back({{"pass", call.forward ? "forward" : "backward"},
                       {"kind", call.kind},
                       {"axes", call.axes},
                       {"bytes", call.bytes},
                       {"seconds", call.seconds}});
    out["layers"].push_back({{"path", layer.path},
                             {"layer", layer.layer},
                             {"split", split},
                             {"input", layer.input},
                             {"output", layer.output},
                             {"forward_seconds", layer.forward},
                             {"backward_seconds", layer.backward},
                             {"message_seconds", layer.messages},
                             {"parameter_bytes", layer.parameter_bytes},
                             {"gradient_bytes", layer.gradient_bytes},
                             {"kept_bytes", memory ? json(layer.kept_bytes) : json()},
                             {"collectives", calls}});
  }
  out["buckets"] = json::array();
  for (auto const& bucket : buckets)
    out["buckets"].push_back({{"gradients", bucket.gradients},
                              {"axes", bucket.axes},
                              {"bytes", bucket.bytes},
                              {"seconds", bucket.seconds},
                              {"in_slices", bucket.in_slices}});
  out["step_seconds"] = {{"total", step.total()},       {"forward", step.forward}, {"backward", step.backward},
                         {"reduction", step.reduction}, {"exposed", step.exposed}, {"gathers", step.gathers},
                         {"waiting", step.waiting},     {"update", step.update},   {"bubble", step.bubble}};
  out["memory_bytes"] = !memory ? json() : json{{"peak", memory->peak()},
                                                {"parameters", memory->parameters},
                                                {"gradients", memory->gradients},
                                                {"optimizer", memory->optimizer},
                                                {"accumulated", memory->accumulated},
                                                {"activations", memory->activations},
                                                {"workspace", memory->workspace}};
  out["timeline"] = json::array();
  for (auto const& part : timeline)
    out["timeline"].push_back(
        {{"what", detail::kind_text(part.what)}, {"of", part.of}, {"begin", part.begin}, {"end", part.end}});
  out["memory_over_time"] = json::array();
  for (auto const& moment : moments)
    out["memory_over_time"].push_back({{"seconds", moment.seconds}, {"bytes", moment.bytes}});
  if (others) out["others"] = detail::json_of(*others);
  return out;
}

}  // namespace tessera
