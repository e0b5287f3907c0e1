#pragma once

#include <tessera/core/shape.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// JSON from files that anybody may have written.
namespace tessera::detail {

/// What is wrong with a JSON text; whoever reads the file says which it is.
struct json_fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Levels of objects and lists in a text: what walks through them recursively needs a bound.
inline constexpr int most_json_levels = 32;

/// A value as text for an error, cut off where it is long.
inline std::string short_text(nlohmann::json const& value) {
  constexpr std::size_t most = 80;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > most) text.replace(most, std::string::npos, "...");
  return text;
}

/// Parses a text. Throws `json_fault` where it is no JSON, begins with a byte order mark, is nested too deeply, or
/// names a member of an object twice.
inline nlohmann::json parse_json(std::string_view text) {
  using event = nlohmann::json::parse_event_t;
  if (text.starts_with("\xEF\xBB\xBF")) throw json_fault("it begins with a byte order mark");
  std::vector<std::set<std::string>> names;  // of the objects that are open
  const auto look = [&](int depth, event what, nlohmann::json& value) {
    if ((what == event::object_start || what == event::array_start) && depth >= most_json_levels)
      throw json_fault("it is nested in more than " + std::to_string(most_json_levels) + " levels");
    if (what == event::object_start) names.emplace_back();
    if (what == event::object_end) names.pop_back();
    if (what == event::key && !names.back().insert(value.get<std::string>()).second)
      throw json_fault("it has " + short_text(value) + " twice");
    return true;
  };
  auto json = nlohmann::json::parse(text, look, false);
  if (json.is_discarded()) throw json_fault("it is no JSON");
  return json;
}

/// A whole number of 0 or more. Throws `json_fault` where the value is another, or too large for an index.
inline index_t whole_number(nlohmann::json const& value) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<index_t>::max()))
    throw json_fault(short_text(value) + " is no whole number from 0 to 2^63 - 1");
  return value.get<index_t>();
}

inline std::vector<index_t> whole_numbers(nlohmann::json const& list) {
  if (!list.is_array()) throw json_fault(short_text(list) + " is no list of whole numbers");
  std::vector<index_t> numbers;
  for (auto const& value : list) numbers.push_back(whole_number(value));
  return numbers;
}

}  // namespace tessera::detail
