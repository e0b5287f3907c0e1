#pragma once

#include <tessera/plan/search/device_report.hpp>
#include <tessera/plan/search/planner.hpp>

#include <map>
#include <optional>
#include <utility>

namespace tessera::detail {

/// Finds the splits of all stages of a cell under some terms.
template <int Axes>
class stage_planner {
 public:
  stage_planner(cell_state<Axes> const& state, device_terms const& terms) : state_(state), terms_(terms) {}

  /// The best plans without a limit on memory, with so much of the reductions' time.
  std::vector<staged_plan<Axes>> unlimited(double gradient_share, int count) {
    terms_.gradient_share = gradient_share;
    return all_stages([&](search_graph<Axes> const& graph, int s) { return best_of(count, graph, s); });
  }

  /// So many as if reductions were free, and so many with all of their time.
  std::vector<staged_plan<Axes>> candidates(int count) {
    std::vector<staged_plan<Axes>> plans = unlimited(0, count);
    for (staged_plan<Axes>& one : plans) one.bound = bound_of(state_.cell.parts, one.seconds());
    for (staged_plan<Axes>& one : unlimited(1, count))
      if (std::none_of(plans.begin(), plans.end(), [&](auto const& other) { return one.is_like(other); }))
        plans.push_back(std::move(one));
    return plans;
  }

  /// The least seconds of a step if reductions of gradients were free. No plan of the cell has a shorter one: a
  /// simulated pass has the kernels and messages of all layers and values that a plan counts, and a stage is planned
  /// here by itself, its input and output in the layouts that it likes best, its weights cut as it likes, whatever
  /// other stages do.
  double least_seconds() {
    terms_.gradient_share = 0;
    std::vector<double> seconds;
    for (int s = 0; s < state_.cell.stages; ++s)
      seconds.push_back(static_cast<double>(best_of(1, part(s).take(), s).front().time) * 1e-12);
    return bound_of(state_.cell.parts, seconds);
  }
  /// The same of plans whose steps have no more than so many bytes; infinite where there is none. More than `enough` is
  /// not looked for.
  double least_seconds_within(index_t most_bytes, double enough) {
    terms_.gradient_share = 0;
    std::vector<double> seconds;
    for (int s = 0; s < state_.cell.stages; ++s) {
      device_part<Axes> here = part(s);
      const std::vector<int> sources = here.sources();
      search_graph<Axes> graph = here.take();
      const index_t most = most_bytes + overcounted(graph, sources);
      // A stage that runs all parts in this time makes the step as long.
      const auto least = planner<Axes>(std::move(graph)).least_time(most, picoseconds(enough / state_.cell.parts));
      if (!least) return std::numeric_limits<double>::infinity();
      seconds.push_back(static_cast<double>(*least) * 1e-12);
    }
    return bound_of(state_.cell.parts, seconds);
  }

  /// The best plan with limits on memory, by stage, within a tolerance; nothing where weights that stages share are cut
  /// in no common way. `fits` says whether all stages have plans within their limits; those that have none get the
  /// smallest.
  std::optional<staged_plan<Axes>> limited(std::vector<index_t> const& limits, double tolerance, bool& fits) {
    terms_.gradient_share = 1;
    fits = true;
    auto found = all_stages([&](search_graph<Axes> const& graph, int s) -> std::vector<search_plan> {
      planner<Axes> plans(graph);
      const index_t limit = limits[static_cast<std::size_t>(s)];
      const search_plan smallest = plans.smallest();
      if (smallest.bytes > limit) {
        fits = false;
        return {smallest};
      }
      return {plans.best({.most_bytes = limit, .tolerance = tolerance})};
    });
    if (found.empty()) return std::nullopt;
    return std::move(found.front());
  }

 private:
  device_part<Axes> part(int stage) const {
    const auto at = static_cast<std::size_t>(stage);
    device_terms terms = terms_;
    terms.live = state_.live(stage);
    return {state_.graph, terms, state_.begins[at], state_.begins[at + 1]};
  }

  /// The most bytes by which a search may count more than a step of the same splits has: it rounds each parameter up by
  /// itself where a step has whole buckets, and counts weights that layers share for each of these.
  index_t overcounted(search_graph<Axes> const& graph, std::vector<int> const& sources) const {
    const index_t element = state_.graph.element_bytes;
    const index_t values = 3 + terms_.remembered;  // with the gradient and its sum over parts
    const auto rounding = static_cast<index_t>(host_memory::alignment) + element;
    std::vector<char> seen(static_cast<std::size_t>(graph.ties), 0);
    index_t sum = 0;
    each_layer(graph, static_cast<int>(graph.nodes.size()) - 1, [&](search_node const& n) {
      const int source = sources[static_cast<std::size_t>(&n - graph.nodes.data())];
      device_node<Axes> const& facts = state_.graph.facts[static_cast<std::size_t>(source)];
      sum += values * rounding * static_cast<index_t>(facts.parameters.size());
      if (n.tie < 0 || std::exchange(seen[static_cast<std::size_t>(n.tie)], 1) == 0) return;
      index_t most = 0;
      for (cut_price<Axes> const& cut : facts.cuts) {
        index_t elements = 0;
        for (cut_parameter const& p : cut.parameters) elements += p.elements;
        most = std::max(most, elements);
      }
      sum += values * most * element;
    });
    return sum;
  }

  /// Stages that are alike are searched once.
  std::vector<search_plan> const& best_of(int count, search_graph<Axes> const& graph, int stage) {
    auto& plans = known_[{terms_.gradient_share, count, kind_of(state_, graph, static_cast<std::size_t>(stage))}];
    if (plans.empty()) plans = planner<Axes>(graph).best_of(count);
    return plans;
  }

  /// Plans of all stages; `find` gives those of one. Weights that stages share are cut as the first of them does.
  template <class Find>
  std::vector<staged_plan<Axes>> all_stages(Find find) const {
    std::vector<staged_plan<Axes>> all;
    for (int s = 0; s < state_.cell.stages; ++s) {
      device_part<Axes> here = part(s);
      const std::vector<int> sources = here.sources();
      const search_graph<Axes> graph = here.take();
      if (s == 0) {
        for (search_plan const& plan : find(graph, s)) {
          all.push_back({});
          add(all.back(), graph, sources, plan);
        }
        continue;
      }
      std::vector<search_plan> known;
      std::size_t number = 0;
      for (staged_plan<Axes>& one : all) {
        search_graph<Axes> tied = graph;
        if (const bool changed = tie(tied, one); changed || known.empty()) {
          if (!has_ways(tied)) return {};
          known = find(tied, s);
        }
        add(one, tied, sources, known[std::min(number++, known.size() - 1)]);
      }
    }
    return all;
  }
  static void add(staged_plan<Axes>& to, search_graph<Axes> const& graph, std::vector<int> const& sources,
                  search_plan const& plan) {
    to.graphs.push_back(graph);
    to.sources.push_back(sources);
    to.plans.push_back(plan);
  }

  cell_state<Axes> const& state_;
  device_terms terms_;
  std::map<std::tuple<double, int, std::vector<edge_code>>, std::vector<search_plan>> known_{};
};

}  // namespace tessera::detail
