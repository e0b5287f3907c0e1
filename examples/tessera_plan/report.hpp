#pragma once

#include "models.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

/// What the command line asks for, resolved.
struct question {
  known_model model;
  std::string machine;  ///< its name
  tessera::machine_description about;
  std::string element;
  tessera::device_request request;
};

/// The plan in words: `16 stages x 8 (NVLink) x 8 (InfiniBand), 64 parts, optimizer level 1, recompute`.
std::string text_of(tessera::device_plan const& plan);

/// Plans as a table, each with its number of devices: best first where there are several for one.
std::string table_of(question const& asked, std::vector<tessera::device_plan> const& plans);
/// Where the time of a step and the memory of a device go, and how layers are cut.
std::string parts_of(tessera::device_plan const& plan);
std::string layers_of(tessera::device_plan const& plan);

nlohmann::ordered_json json_of(question const& asked, std::vector<tessera::device_plan> const& plans);
nlohmann::ordered_json json_of(tessera::device_plan const& plan);

/// Text as `printf` makes it.
std::string format(char const* text, ...) __attribute__((format(printf, 1, 2)));
