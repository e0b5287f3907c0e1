#pragma once

#include <tessera/core/shape.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// For one layer of a plan: the best plan that cuts it in another way.
struct runner_up {
  std::string path{};            ///< the layer's place, as parameters are named
  std::string layer{};           ///< its type without split words
  std::string split{};           ///< how it is cut: `batch dp*tp`, or `whole`
  std::string other{};           ///< how it is cut there; nothing where it has no other way, or none that fits
  std::optional<double> lost{};  ///< by how many seconds a step of that plan is longer
};

/// One of the best plans, and the layers that it cuts in another way than the one that is explained.
struct ranked_plan {
  double seconds = 0;  ///< of a step
  index_t bytes = 0;   ///< on the device with the largest blocks, counted as `memory_limit` does
  /// `2.branch.0 linear<64, 256>: output tp`; none where plans differ in layouts between layers alone.
  std::vector<std::string> changes{};
};

/// What a search compared a plan with: see `explain_search`. Seconds are those of the search, where costs add up and
/// backward hides no reduction.
struct plan_alternatives {
  std::vector<runner_up> runners_up{};  ///< by layer
  std::vector<ranked_plan> plans{};     ///< best first
};

namespace detail {

inline nlohmann::ordered_json json_of(plan_alternatives const& others) {
  using json = nlohmann::ordered_json;
  json out{{"runners_up", json::array()}, {"plans", json::array()}};
  for (runner_up const& one : others.runners_up)
    out["runners_up"].push_back({{"path", one.path},
                                 {"layer", one.layer},
                                 {"split", one.split},
                                 {"other", one.lost ? json(one.other) : json()},
                                 {"lost_seconds", one.lost ? json(*one.lost) : json()}});
  for (ranked_plan const& plan : others.plans)
    out["plans"].push_back({{"seconds", plan.seconds}, {"bytes", plan.bytes}, {"changes", plan.changes}});
  return out;
}

}  // namespace detail

}  // namespace tessera
