#pragma once

#include <tessera/plan/search/device_cells.hpp>
#include <tessera/plan/search/device_step.hpp>

#include <memory>
#include <tuple>

namespace tessera::detail {

/// What is found for the stages of a cell: their graphs and plans.
template <int Axes>
struct staged_plan {
  std::vector<search_graph<Axes>> graphs{};
  std::vector<std::vector<int>> sources{};
  std::vector<search_plan> plans{};
  double bound = 0;  ///< of the seconds of its step, from below

  /// The seconds of one part, by stage.
  std::vector<double> seconds() const {
    std::vector<double> all;
    for (search_plan const& plan : plans) all.push_back(static_cast<double>(plan.time) * 1e-12);
    return all;
  }
  /// Whether both cut and lay out everything alike.
  bool is_like(staged_plan const& other) const {
    const auto splits = [](search_plan const& p) {
      return std::tie(p.cuts, p.sums, p.inputs, p.outputs, p.recomputed, p.input, p.output);
    };
    return std::equal(plans.begin(), plans.end(), other.plans.begin(), other.plans.end(),
                      [&](search_plan const& a, search_plan const& b) { return splits(a) == splits(b); });
  }
};

/// A cell, with blocks recomputed or not, whose fastest plans have been simulated with each level.
template <int Axes>
struct open_cell {
  struct at_level {
    int level = 0;
    bool fits = false;                ///< whether the fastest plan does
    std::vector<index_t> overhead{};  ///< by stage: bytes of workspace and buckets, as that plan has them
    double bound = 0;                 ///< of the seconds of a step, from below
  };
  device_cell<Axes> cell{};
  bool recompute = false;
  double bound = 0;  ///< at any level
  std::vector<at_level> levels{};
};

/// A cell under search.
template <int Axes>
struct cell_state {
  device_cell<Axes> cell{};
  device_graph<Axes> graph{};
  std::vector<int> begins{};  ///< by stage, and the end: parts of the root
  std::unique_ptr<run_links<Axes>> links{};
  link_cost message{};  ///< between stages

  /// What the layers of a stage take at the least, each by itself, in one part.
  double least_of_stage(std::size_t stage) const {
    auto const& parts = graph.nodes.back().parts;
    if (graph.nodes.back().kind != search_kind::chain)
      return least_of(graph, static_cast<int>(graph.nodes.size()) - 1).seconds;
    double sum = 0;
    for (int i = begins[stage]; i < begins[stage + 1]; ++i)
      sum += least_of(graph, parts[static_cast<std::size_t>(i)]).seconds;
    return sum;
  }
  /// The passes of a stage that are under way at one time.
  int live(int stage) const { return std::min(cell.stages - stage, cell.parts); }
};

/// Calls `f` with the layers of a part of a graph, as often as they come, in order of forward.
template <int Axes, class F>
void each_layer(search_graph<Axes> const& graph, int node, F const& f) {
  search_node const& n = graph.nodes[static_cast<std::size_t>(node)];
  if (n.kind == search_kind::layer) f(n);
  for (const int part : n.parts) each_layer(graph, part, f);
}

/// Leaves only those ways of layers that cut shared weights as stages before do; whether there are such weights.
template <int Axes>
bool tie(search_graph<Axes>& graph, staged_plan<Axes> const& before) {
  bool changed = false;
  for (std::size_t s = 0; s < before.graphs.size(); ++s) {
    std::size_t layer = 0;
    each_layer(before.graphs[s], static_cast<int>(before.graphs[s].nodes.size()) - 1, [&](search_node const& n) {
      const int cut = before.plans[s].cuts[layer++];
      if (n.tie < 0) return;
      const auto way = std::find_if(n.ways.begin(), n.ways.end(), [&](layer_way const& w) { return w.cut == cut; });
      for (search_node& other : graph.nodes)
        if (other.tie == n.tie) {
          std::erase_if(other.ways, [&](layer_way const& w) { return w.tie != way->tie; });
          changed = true;
        }
    });
  }
  return changed;
}
template <int Axes>
bool has_ways(search_graph<Axes> const& graph) {
  return std::none_of(graph.nodes.begin(), graph.nodes.end(),
                      [](search_node const& n) { return n.kind == search_kind::layer && n.ways.empty(); });
}
/// Tells apart stages of other layers, or of shared weights that are cut otherwise.
template <int Axes>
std::vector<edge_code> kind_of(cell_state<Axes> const& state, search_graph<Axes> const& graph, std::size_t stage) {
  std::vector<edge_code> kind;
  auto const& parts = state.graph.nodes.back().parts;
  for (int i = state.begins[stage]; i < state.begins[stage + 1] && !parts.empty(); ++i)
    kind.push_back(static_cast<edge_code>(parts[static_cast<std::size_t>(i)]));
  for (search_node const& n : graph.nodes)
    if (n.tie >= 0) kind.insert(kind.end(), {n.ways.size(), n.ways.front().tie});
  return kind;
}

/// A simulated step.
template <int Axes>
struct cell_step {
  step_price total{};
  std::vector<planned_stage<Axes>> stages{};
  std::vector<stage_step> steps{};  ///< of each stage

  double seconds() const { return total.total(); }
  bool fits(index_t memory) const { return fullest().total() <= memory; }
  device_memory const& fullest() const { return steps[fullest_stage()].memory; }
  std::size_t fullest_stage() const {
    const auto less = [](stage_step const& a, stage_step const& b) { return a.memory.total() < b.memory.total(); };
    return static_cast<std::size_t>(std::max_element(steps.begin(), steps.end(), less) - steps.begin());
  }
  /// The stage whose passes take longest.
  stage_step const& busiest() const {
    const auto less = [](stage_step const& a, stage_step const& b) {
      return a.price.forward + a.price.backward < b.price.forward + b.price.backward;
    };
    return *std::max_element(steps.begin(), steps.end(), less);
  }
};

/// The layer that has most of the fullest device, with its bytes.
template <int Axes>
std::string fullest_layer(cell_state<Axes> const& state, device_terms const& terms, cell_step<Axes> const& step) {
  const std::size_t number = step.fullest_stage();
  planned_stage<Axes> const& stage = step.stages[number];
  std::string name;
  index_t most = -1;
  for (std::size_t r = 0; r < stage.cuts.size(); ++r) {
    const auto [node, cut] = stage.cuts[r];
    if (node < 0) continue;
    auto const& price = state.graph.facts[static_cast<std::size_t>(node)].cuts[static_cast<std::size_t>(cut)];
    index_t bytes = price.kept * (terms.recompute ? 1 : state.live(static_cast<int>(number)));
    for (cut_parameter const& p : price.parameters) bytes += p.elements * state.graph.element_bytes;
    if (bytes <= most) continue;
    most = bytes;
    name = "layer " + stage.paths[r] + " (" + std::string(stage.layers.rows[r].layer) + ") has most of it, " +
           std::to_string(bytes) + " for values and activations";
  }
  return name;
}

/// Writes a combination, its splits and its step into a plan.
template <int Axes>
void describe(device_plan& to, cell_state<Axes> const& state, device_terms const& terms, cell_step<Axes> const& step) {
  device_cell<Axes> const& cell = state.cell;
  mesh_sizes<Axes> const& mesh = cell.mesh;
  machine_description const& machine = state.graph.machine;
  to.stages = cell.stages;
  to.parts = cell.parts;
  to.level = terms.level;
  to.recompute = terms.recompute;
  to.mesh.clear();
  to.begins.clear();
  to.layers.clear();
  to.buckets = 0;
  for (int a = 0; a < Axes; ++a) {
    if (mesh[a] == 1) continue;
    planned_axis axis{mesh[a], ""};
    int below = 1;
    for (int level = 0; level < machine.level_count(); ++level) {
      const int inside = machine.ranks_inside(level, mesh, static_cast<axis_set>(1u << a));
      if (inside > below) axis.level = machine.levels[level].name;
      below = inside;
    }
    to.mesh.push_back(axis);
  }
  for (std::size_t s = 0; s < step.stages.size(); ++s) {
    planned_stage<Axes> const& stage = step.stages[s];
    auto const& entries = state.graph.entries;
    to.begins.push_back(entries.empty() ? 0 : entries[static_cast<std::size_t>(state.begins[s])]);
    to.buckets += step.steps[s].buckets;
    for (std::size_t r = 0; r < stage.cuts.size(); ++r) {
      const auto [node, cut] = stage.cuts[r];
      if (node < 0) continue;
      auto const& row = stage.layers.rows[r];
      device_node<Axes> const& facts = state.graph.facts[static_cast<std::size_t>(node)];
      planned_cut layer{
          stage.paths[r], std::string(row.layer), {}, static_cast<int>(s), cell.parts * (row.forward + row.backward)};
      for (int a = 0; a < Axes; ++a) {
        if (mesh[a] == 1) continue;
        const std::size_t letter = facts.letters.find(facts.cuts[static_cast<std::size_t>(cut)].resolved.letter[a]);
        layer.words.emplace_back(letter == std::string::npos ? std::string_view{} : facts.words[letter]);
      }
      to.layers.push_back(std::move(layer));
    }
  }
  to.fusion = step.busiest().fusion;
  to.memory = step.fullest();
  to.step.communication = cell.parts * step.busiest().messages;
  to.step.compute = step.total.forward + step.total.backward - to.step.communication;
  to.step.exposed = step.total.exposed + step.total.waiting;
  to.step.bubble = step.total.bubble;
  to.step.update = step.total.update;
}

}  // namespace tessera::detail
