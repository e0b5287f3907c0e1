#pragma once

#include <tessera/plan/auto_parallel.hpp>
#include <tessera/plan/explain.hpp>
#include <tessera/plan/search/graph.hpp>
#include <tessera/plan/search/planner.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

namespace detail {

/// The plans of a search beside the one that it found.
template <class Search>
class compared_plans {
  using problem = typename Search::problem;
  using mesh = typename problem::mesh;
  using input = typename Search::input;
  static constexpr int axes = mesh::axes;

 public:
  explicit compared_plans(std::vector<explained_layer> const& rows) : planner_(graph()) {
    for (explained_layer const& row : rows) {
      const std::size_t next = layers_.size();
      if (next == planner_.layers().size()) break;
      if (row.path != planner_.layers()[next].path || row.layer == "layout" || row.layer == "sum") continue;
      layers_.push_back(row.layer);
      found_.cuts.push_back(cut_of(row, node(next)));
    }
    request_.most_bytes = Search::most_bytes;
  }

  std::vector<runner_up> runners_up() {
    std::vector<runner_up> out;
    const auto others = planner_.runners_up(found_, request_);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      runner_up one{planner_.layers()[i].path, layers_[i], text(i, found_.cuts[i])};
      if (others[i]) {
        one.other = text(i, others[i]->cuts[i]);
        one.lost = seconds(others[i]->time - Search::time);
      }
      out.push_back(std::move(one));
    }
    return out;
  }

  std::vector<ranked_plan> best(int count) {
    std::vector<ranked_plan> out;
    if (count < 1) return out;
    for (search_plan const& plan : planner_.best_of(count, request_)) {
      ranked_plan one{seconds(plan.time), plan.bytes};
      for (std::size_t i = 0; i < layers_.size(); ++i)
        if (plan.cuts[i] != found_.cuts[i])
          one.changes.push_back(planner_.layers()[i].path + ' ' + layers_[i] + ": " + text(i, plan.cuts[i]));
      out.push_back(std::move(one));
    }
    return out;
  }

 private:
  static search_graph<axes> graph() {
    auto graph = graph_of<problem, typename Search::serial, input::extents>(Search::copies);
    graph.loss_times = loss_times<problem, after_node<bare<typename Search::serial>, input::extents>::extents>();
    return graph;
  }
  static double seconds(search_time time) { return static_cast<double>(time) * 1e-12; }
  search_node const& node(std::size_t layer) const {
    return planner_.graph().nodes[static_cast<std::size_t>(planner_.layers()[layer].node)];
  }

  /// The cut with the words of a row that takes and makes values in its layouts.
  int cut_of(explained_layer const& row, search_node const& n) const {
    const auto taken = all_edges(mesh::value, n.input.rank, true, false);
    const auto made = all_edges(mesh::value, n.output.rank, true, true);
    const auto written = [&](std::vector<edge_code> const& codes, std::int16_t place, int rank) {
      return to_string(mesh_, layout_of_edge<axes>(codes[static_cast<std::size_t>(place)]), rank);
    };
    for (layer_way const& way : n.ways)
      if (has_words(n, way.cut, row.split) && written(taken, way.taken, n.input.rank) == row.input &&
          written(made, way.made, n.output.rank) == row.output)
        return way.cut;
    return -1;
  }
  static std::string_view word(search_node const& n, int cut, int axis) {
    const std::size_t letter = n.letters.find(n.cuts[static_cast<std::size_t>(cut)].letter[axis]);
    return letter == std::string::npos ? std::string_view{} : n.cut_words[letter];
  }
  static bool has_words(search_node const& n, int cut, std::vector<std::string> const& words) {
    for (int a = 0; a < axes; ++a)
      if (word(n, cut, a) != words[static_cast<std::size_t>(a)]) return false;
    return true;
  }

  /// Words, each with the axes that cut what it names, first to last.
  std::string text(std::size_t layer, int cut) const {
    search_node const& n = node(layer);
    auto const& cuts = n.cuts[static_cast<std::size_t>(cut)];
    std::string out;
    for (std::size_t l = 0; l < n.letters.size(); ++l) {
      std::vector<int> by;
      for (int a = 0; a < axes; ++a)
        if (cuts.letter[a] == n.letters[l]) by.push_back(a);
      std::stable_sort(by.begin(), by.end(), [&](int a, int b) { return cuts.order[a] < cuts.order[b]; });
      for (std::size_t i = 0; i < by.size(); ++i)
        out += (i > 0 ? "*" : (out.empty() ? "" : ", ") + std::string(n.cut_words[l]) + ' ') + mesh_.name(by[i]);
    }
    return out.empty() ? "whole" : out;
  }

  named_mesh<axes> mesh_ = named<mesh>();
  planner<axes> planner_;
  plan_request request_{};
  std::vector<std::string> layers_{};
  search_plan found_{};
};

}  // namespace detail

/// How many alternatives `explain_search` looks for.
struct compared {
  int plans = 5;           ///< how many of the best plans, that which was found among them; 0: none
  bool runners_up = true;  ///< whether the best plan that cuts a layer otherwise, for each layer
};

/// `explain` of what a search found, with what it was compared with: for each layer the best plan that cuts it
/// otherwise, and the best plans of all, under the same memory limit.
///
///     using search = auto_parallel_search<model::resnet50<1000>, input<256, 3, 224, 224>, world, machine>;
///     std::ofstream("plan.html") << tessera::explain_search<search>().html();
///
/// A search at run time (`planner`) finds them, one for each layer and one for the best plans. Throws what `explain`
/// throws, and where `count.plans` is below 0.
template <class Search>
explanation explain_search(step_settings settings = {}, compared count = {}) {
  static_assert(requires { typename Search::problem; },
                "tessera: explain_search explains a search, and this type is none: name auto_parallel_search of the "
                "arguments of auto_parallel, or explain the model with explain<Model, Mesh, Machine>()");
  using problem = typename Search::problem;
  if (count.plans < 0)
    throw error("a table of " + std::to_string(count.plans) + " plans", "0 or more", "ask for none, or for some");
  explanation out =
      explain<typename Search::type, typename problem::mesh, typename problem::machine_type>(settings);
  detail::compared_plans<Search> others(out.layers);
  out.others.emplace();
  if (count.runners_up) out.others->runners_up = others.runners_up();
  out.others->plans = others.best(count.plans);
  return out;
}

}  // namespace tessera
