#pragma once

#include "support/golden.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

/// Cases that other programs left in the folder TESSERA_SHARED.
namespace shared_cases {

/// `cases/NAME` of that folder; where there is none, says that the tests of it are skipped.
inline std::optional<nlohmann::json> read(std::string const& name) {
  char const* const folder = std::getenv("TESSERA_SHARED");
  if (folder == nullptr) {
    golden::say("skipped: " + name + ", there is no TESSERA_SHARED");
    return std::nullopt;
  }
  const std::string path = std::string(folder) + "/cases/" + name;
  std::ifstream file(path);
  if (!file) {
    golden::say("skipped: there is no " + path);
    return std::nullopt;
  }
  return nlohmann::json::parse(file);
}

}  // namespace shared_cases
