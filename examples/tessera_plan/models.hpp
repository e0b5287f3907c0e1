#pragma once

#include <tessera/plan/device_plan.hpp>
#include <tessera/plan/machine.hpp>

#include <string>
#include <vector>

/// A model that the program plans.
struct known_model {
  std::string name;
  std::string about;
  std::string samples;              ///< what a batch consists of: `images`
  tessera::index_t batch = 0;       ///< samples a device, where none are asked for
  tessera::index_t remembered = 0;  ///< values that its usual optimizer keeps for each element
  tessera::device_plan (*plan)(tessera::machine_description const&, tessera::device_request const&) = nullptr;
};

// In several sources, because each model is a search of its own to the compiler: two compile at a time.
std::vector<known_model> models_of_images();
std::vector<known_model> models_of_language();
std::vector<known_model> large_models_of_language();
