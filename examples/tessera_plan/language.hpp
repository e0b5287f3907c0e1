#pragma once

#include "models.hpp"

#include <tessera/model/transformer.hpp>
#include <tessera/plan/plan_devices.hpp>

#include <string>

namespace planned {

namespace ts = tessera;

/// GPT-2 (A. Radford et al., 2019) and larger ones of its kind.
template <int Length, int Features, int Heads, int Layers>
using gpt = ts::model::gpt<50257, Length, Features, Heads, Layers>;

template <int Length, int Features, int Heads, int Layers>
known_model gpt_named(std::string const& name, std::string const& size, ts::index_t batch) {
  return {name,        size + " parameters, sequences of " + std::to_string(Length),
          "sequences", batch,
          2,           ts::plan_devices<gpt<Length, Features, Heads, Layers>, ts::input<ts::dynamic, Length>>};
}

}  // namespace planned
