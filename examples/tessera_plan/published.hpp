#pragma once

#include "models.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

/// A training run whose speed was published.
struct published_run {
  std::string model;
  std::string machine;
  int devices = 1;
  tessera::index_t batch = 0;  ///< all devices together
  double samples_per_second = 0;
  std::string source;
  /// How it was split, where that was told and is not for the planner to choose: stages, parts of the batch, and the
  /// axes inside a stage.
  int stages = 0;
  int parts = 0;
  std::vector<int> mesh{};
};

/// The same beside what the planner says of it.
struct compared_run {
  published_run run;
  tessera::device_plan plan;
  /// The same with all rates of the device multiplied by one factor, so that the run of this model on one device takes
  /// as long as published; links stay as they are. Of a run without one: nothing.
  double factor = 0;
  double calibrated = 0;  ///< samples a second

  double error() const { return plan.samples_per_second() / run.samples_per_second - 1; }
  double calibrated_error() const { return calibrated / run.samples_per_second - 1; }
};

std::vector<compared_run> compare_published(
    std::function<known_model const&(std::string const&)> const& model,
    std::function<tessera::machine_description(std::string const&)> const& machine);

std::string table_of(std::vector<compared_run> const& runs);
nlohmann::ordered_json json_of(std::vector<compared_run> const& runs);
