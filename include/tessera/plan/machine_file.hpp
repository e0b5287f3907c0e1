#pragma once

#include <tessera/data/json_text.hpp>
#include <tessera/plan/machine.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tessera {

namespace detail {

/// The members of an object of a file that describes a machine, by name. Each that is there must be known, so that a
/// slip of the pen is no default.
class described_members {
 public:
  described_members(nlohmann::json const& object, std::string what, std::initializer_list<std::string_view> known)
      : object_(object), what_(std::move(what)) {
    if (!object.is_object()) throw json_fault(what_ + " is no object: " + short_text(object));
    for (auto const& member : object.items())
      if (std::find(known.begin(), known.end(), member.key()) == known.end()) {
        std::string names;
        for (const std::string_view name : known) names += (names.empty() ? "" : ", ") + std::string(name);
        throw json_fault(what_ + " has a member \"" + member.key() + "\", and knows " + names);
      }
  }

  nlohmann::json const* find(char const* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }
  nlohmann::json const& get(char const* name) const {
    if (auto const* found = find(name)) return *found;
    throw json_fault(what_ + " has no \"" + name + "\"");
  }
  /// Sets a number; one that is not there stays as it is.
  void read(char const* name, double& number) const {
    auto const* value = find(name);
    if (value == nullptr) return;
    if (!value->is_number()) throw fault(name, "is no number");
    number = value->get<double>();
  }
  index_t whole(char const* name) const {
    auto const& value = get(name);
    if (!value.is_number_integer())
      throw fault(name, "is no whole number, written without a point or an exponent: " + short_text(value));
    return whole_number(value);
  }
  json_fault fault(char const* name, std::string const& text) const {
    return json_fault("\"" + std::string(name) + "\" of " + what_ + " " + text);
  }

 private:
  nlohmann::json const& object_;
  std::string what_;
};

inline link_level level_from(nlohmann::json const& json) {
  const described_members members(json, "a level",
                                  {"name", "ranks", "latency", "seconds_per_byte", "pairs", "buckets"});
  link_level level;
  auto const& name = members.get("name");
  if (!name.is_string()) throw members.fault("name", "is no text");
  const std::string text = name.get<std::string>();
  if (text.empty() || text.size() >= sizeof level.name)
    throw members.fault("name", "has not 1 to " + std::to_string(sizeof level.name - 1) + " letters");
  std::copy(text.begin(), text.end(), level.name);
  if (auto const* ranks = members.find("ranks")) {
    const index_t number = whole_number(*ranks);
    if (number > std::numeric_limits<int>::max()) throw members.fault("ranks", "is too large");
    level.ranks = static_cast<int>(number);
  }
  members.get("latency");
  members.get("seconds_per_byte");
  members.read("latency", level.link.latency);
  members.read("seconds_per_byte", level.link.seconds_per_byte);
  members.read("buckets", level.buckets);
  if (auto const* pairs = members.find("pairs")) {
    if (!pairs->is_boolean()) throw members.fault("pairs", "is neither true nor false");
    level.pairs = pairs->get<bool>();
  }
  return level;
}

inline machine_description machine_from(std::string_view text) {
  const auto json = parse_json(text);
  const described_members members(
      json, "the machine", {"peak", "reachable", "half", "bytes_per_second", "memory", "launch", "speeds", "levels"});
  machine_description m;
  const described_members peak(members.get("peak"), "\"peak\"", {"float64", "float32", "float16", "bfloat16"});
  peak.read("float64", m.peak.float64);
  peak.read("float32", m.peak.float32);
  peak.read("float16", m.peak.float16);
  peak.read("bfloat16", m.peak.bfloat16);
  members.read("reachable", m.reachable);
  members.read("half", m.half);
  members.get("bytes_per_second");
  members.read("bytes_per_second", m.bytes_per_second);
  m.memory = members.whole("memory");
  members.read("launch", m.launch);
  if (auto const* speeds = members.find("speeds")) {
    const described_members of(*speeds, "\"speeds\"",
                               {"convolutions", "attention", "maps", "functions", "norms", "pooling", "updates"});
    of.read("convolutions", m.speeds.convolutions);
    of.read("attention", m.speeds.attention);
    of.read("maps", m.speeds.maps);
    of.read("functions", m.speeds.functions);
    of.read("norms", m.speeds.norms);
    of.read("pooling", m.speeds.pooling);
    of.read("updates", m.speeds.updates);
  }
  auto const& levels = members.get("levels");
  if (!levels.is_array() || levels.size() > static_cast<std::size_t>(machine_description::most_levels))
    throw json_fault("\"levels\" is no list of at most " + std::to_string(machine_description::most_levels));
  for (std::size_t i = 0; i < levels.size(); ++i) m.levels[i] = level_from(levels[i]);
  switch (fault_of(m)) {
    case machine_fault::none: return m;
    case machine_fault::rates:
      throw json_fault(
          "a peak, half or launch is negative, a reachable share is not above 0 and at most 1, or a speed "
          "is not above 0");
    case machine_fault::memory: throw json_fault("\"memory\" or \"bytes_per_second\" is not above 0");
    case machine_fault::levels:
      throw json_fault("the groups of a level are not made of whole groups of the level before, or there is no level");
    case machine_fault::links: break;
  }
  throw json_fault("a latency or seconds_per_byte is negative, or a factor for buckets is not above 0");
}

}  // namespace detail

/// Reads a description of a machine from a JSON file: an object with the members of `machine_description` by name. The
/// link of a level is its `latency` and `seconds_per_byte`. `peak`, `bytes_per_second`, `memory` and `levels` must be
/// there; others are as in a `machine_description` without them.
///
/// Throws `error` where the file is not there, is no JSON, has a member that no machine has, or describes a machine
/// that cannot be.
inline machine_description load_machine(std::filesystem::path const& path) {
  std::error_code fault;
  std::ifstream file(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path, fault) || !file)
    throw error("no machine file " + path.string() + " that can be read", "a description of a machine as JSON",
                "check the path and its permissions");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return detail::machine_from(text);
  } catch (detail::json_fault const& f) {
    throw error("the machine file " + path.string() + " cannot be used: " + f.what(),
                "the members of a machine_description",
                "correct the file; docs/how_to/describe_a_machine.md lists them");
  }
}

}  // namespace tessera
