#pragma once

#include <tessera/plan/search/label_search.hpp>

namespace tessera {

/// What a search finds: how each layer is cut, in which layout each sum of a residual is taken, and what layout words
/// do.
struct search_plan {
  search_time time = 0;
  index_t bytes = 0;              ///< on the device with the largest blocks: see `graph_of`
  std::vector<int> cuts{};        ///< by layer, in order of forward, branches before shortcuts: the place in its `cuts`
  std::vector<edge_code> sums{};  ///< by residual, in the order in which they end: the layout of the sum
  std::vector<edge_code> inputs{};  ///< and that of its input, a word before it included
  std::vector<edge_code> outputs{};  ///< and that in which it is left, by a word after it or as it is
  /// By layer: the layout of the input of the outermost recomputed part that begins with it.
  std::vector<edge_code> recomputed{};
  edge_code input = 0;              ///< the layout in which the input is cheapest
  edge_code output = 0;             ///< the layout in which the loss takes the output
};

namespace detail {

/// Reads plans from the labels of a search.
template <int Axes>
class plan_reader {
  using search_type = label_search<Axes>;
  using run = typename search_type::run;

 public:
  explicit plan_reader(search_type& search) : search_(search) {}

  /// The best plans, as many as there are, at most as many as the rule keeps.
  std::vector<search_plan> plans() {
    const int root = static_cast<int>(search_.graph().nodes.size()) - 1;
    search_node const& n = search_.graph().root();
    run const& whole = search_.whole();
    label_slots ends(1, search_.rule());
    for (std::size_t i = 0; i < whole.back().size(); ++i) {
      const auto end = search_.end_of(whole.back()[i].made);
      if (end.taken < 0) continue;
      search_label last = search_.passed(whole.back()[i], i, end.time);
      last.choice = end.taken;
      ends.offer(0, last);
    }
    std::vector<search_plan> found;
    for (search_label const& end : ends.list()) {
      search_plan plan;
      plan.time = end.time;
      plan.bytes = end.bytes;
      plan.cuts.assign(static_cast<std::size_t>(n.layers), -1);
      plan.sums.assign(static_cast<std::size_t>(n.sums), 0);
      plan.inputs = plan.outputs = plan.sums;
      plan.recomputed.assign(plan.cuts.size(), 0);
      plan.output = search_.edges(n.output.rank).taken[static_cast<std::size_t>(end.choice)];
      const std::int16_t first = trace(plan, root, whole, end.from, 0, 0);
      plan.input = search_.edges(n.input.rank).made[static_cast<std::size_t>(first)];
      found.push_back(std::move(plan));
    }
    return found;
  }

 private:
  /// Writes the choices that lead to a label at the end of a line; returns how the value at its beginning is made.
  std::int16_t trace(search_plan& plan, int node, run const& labels, int last, int layers, int sums) {
    auto const& parts = search_.line_of(node);
    for (std::size_t i = parts.size(); i-- > 0;) {
      search_label const& label = labels[i + 1][static_cast<std::size_t>(last)];
      search_node const& n = search_.at(parts[i].node);
      const int first_layer = layers + parts[i].layers;
      using place = typename search_type::line_part::place;
      if (parts[i].at == place::after)
        plan.outputs[static_cast<std::size_t>(sums + parts[i].sums + n.sums - 1)] =
            value_of_edge<Axes>(search_.edges(n.output.rank).made[static_cast<std::size_t>(label.made)]);
      if (parts[i].at != place::node) {
        last = label.from;
        continue;
      }
      plan.bytes += n.least_bytes();
      if (n.kind == search_kind::recompute)
        plan.recomputed[static_cast<std::size_t>(first_layer)] =
            value_of_edge<Axes>(search_.edges(n.input.rank).made[static_cast<std::size_t>(label.made)]);
      if (n.kind == search_kind::layer) plan.cuts[static_cast<std::size_t>(first_layer)] = label.choice;
      if (n.kind == search_kind::residual)
        trace_sides(plan, parts[i].node, labels[i][static_cast<std::size_t>(label.from)].made, label.other, first_layer,
                    sums + parts[i].sums);
      last = label.from;
    }
    return labels.front()[static_cast<std::size_t>(last)].made;
  }
  void trace_sides(search_plan& plan, int node, std::int16_t made, int which, int layers, int sums) {
    search_node const& n = search_.at(node);
    const search_label sum = search_.sums_from(node, made, layers)[static_cast<std::size_t>(which)];
    const std::int16_t value = search_.edges(n.input.rank).made_value[static_cast<std::size_t>(made)];
    // The runs are not kept with the table: they are followed again, to the same labels.
    const auto both = search_.sides_from(node, value, layers);
    plan.sums[static_cast<std::size_t>(sums + n.sums - 1)] =
        value_of_edge<Axes>(search_.edges(n.output.rank).made[static_cast<std::size_t>(sum.made)]);
    const auto place = static_cast<std::size_t>(sums + n.sums - 1);
    if (!n.words) plan.outputs[place] = plan.sums[place];
    plan.inputs[place] =
        value_of_edge<Axes>(search_.edges(n.input.rank).made[static_cast<std::size_t>(made)]);
    search_node const& branch = search_.at(n.parts[0]);
    trace(plan, n.parts[0], both.branch[static_cast<std::size_t>(sum.choice / search_type::sets)], sum.from, layers,
          sums);
    if (n.parts.size() > 1)
      trace(plan, n.parts[1], both.shortcut[static_cast<std::size_t>(sum.choice % search_type::sets)], sum.other,
            layers + branch.layers, sums + branch.sums);
  }

  search_type& search_;
};

}  // namespace detail

}  // namespace tessera
