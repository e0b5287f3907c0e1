#pragma once

#include <tessera/plan/search/graph.hpp>
#include <tessera/plan/search/label_bounds.hpp>
#include <tessera/plan/search/label_links.hpp>

#include <map>
#include <numeric>
#include <optional>

namespace tessera::detail {

/// Cuts of one layer that a search may not choose; layers are counted in order of forward.
struct banned_cuts {
  int layer = -1;
  std::vector<int> cuts{};

  bool has(int of_layer, int cut) const {
    return of_layer == layer && std::find(cuts.begin(), cuts.end(), cut) != cuts.end();
  }
};

/// One search through a graph under one rule: labels before and after each part of a chain, and tables of residuals.
///
/// A label's state is the value made, gradients included, and where its part began. Chains are followed part by part.
/// A residual has a table: from each way in which its input is made, the labels of its sum. The table is filled once
/// for all residuals that are equal, each row when a label comes to it; both sides are chains that begin in one state.
template <int Axes>
class label_search : public label_links<Axes> {
  using base = label_links<Axes>;
  using base::links_;
  using base::rule_;

 public:
  using base::edges;
  using base::never;
  using base::passed;
  using typename base::ways;
  using typename base::weights;
  static constexpr int sets = 1 << Axes;

  /// Labels before each part of a line, and after the last.
  using run = std::vector<label_list>;
  /// A node of a line and what comes before it there; or the change of layout that may stand before it or after it.
  struct line_part {
    enum class place { node, before, after };
    int node = 0;
    int layers = 0;
    int sums = 0;
    place at = place::node;
  };
  using line = std::vector<line_part>;
  /// The ways through the sides of a residual from one value, by where each side leaves the gradient partial.
  struct sides {
    std::vector<run> branch = std::vector<run>(sets);
    std::vector<run> shortcut = std::vector<run>(sets);
  };
  /// Their labels at the sum, by the way in which it is taken.
  struct meeting {
    std::vector<label_slots> branch{};
    std::vector<label_slots> shortcut{};
  };
  /// Labels of a sum by where the gradient of the residual's input is partial.
  using sum_labels = std::vector<label_list>;

  /// `ties` are the ways to cut weights that several layers share. Labels are left out that any of the bounds rules
  /// out.
  label_search(search_graph<Axes> const& graph, run_links<Axes>& links, label_rule const& rule,
               std::vector<edge_code> ties, banned_cuts banned, std::vector<label_bounds> bounds = {})
      : base(links, rule),
        graph_(graph),
        ties_(std::move(ties)),
        banned_(std::move(banned)),
        bounds_(std::move(bounds)) {}

  search_graph<Axes> const& graph() const { return graph_; }
  search_node const& at(int node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }

  /// The labels of the whole model. Its input may come in any layout; a layer that is first gets it as it takes it.
  run const& whole() {
    if (whole_.empty()) {
      const int root = static_cast<int>(graph_.nodes.size()) - 1;
      whole_ = follow(root, beginnings(), 0, true, [](label_bounds const& b) { return &b.model; });
    }
    return whole_;
  }

  /// The cheapest way in which the loss, which makes whole gradients, takes the output: a way of taking it and the
  /// time.
  struct end_link {
    int taken = -1;
    search_time time = never;
  };
  end_link end_of(std::int16_t made) {
    search_node const& n = graph_.root();
    edge_rows const& rows = links_.rows(n.output.rank, n.output.bytes, {1, int{n.learns}});
    auto const& e = edges(n.output.rank);
    const std::int16_t value = e.made_value[static_cast<std::size_t>(made)];
    end_link best;
    for (int k = 0; k < rows.takes; ++k) {
      if (e.made_set[static_cast<std::size_t>(e.taken_made[static_cast<std::size_t>(k)])] != 0 ||
          rows.made_from(value)[k] != made)
        continue;
      const search_time loss = graph_.loss_times.empty() ? 0 : graph_.loss_times[static_cast<std::size_t>(k)];
      if (loss < 0) continue;
      const search_time time = rows.times_from(value)[k] + loss;
      // As it is, where that costs no more.
      if (time < best.time || (time == best.time && e.taken_made[static_cast<std::size_t>(k)] == made))
        best = {k, time};
    }
    return best;
  }
  weights weights_at_end() {
    weights out(edges(graph_.root().output.rank).made.size(), never);
    for (std::size_t m = 0; m < out.size(); ++m)
      if (const end_link end = end_of(static_cast<std::int16_t>(m)); end.taken >= 0)
        out[m] = rule_.weight.of(end.time, 0);
    return out;
  }

  /// The parts of a node, with chains opened; recomputed parts come after the node that says so.
  line const& line_of(int node) {
    line& out = lines_[node];
    if (out.empty()) {
      int layers = 0;
      int sums = 0;
      open(out, node, layers, sums);
    }
    return out;
  }

  residual_key key_of(int node, int layers) const {
    const bool banned = layers <= banned_.layer && banned_.layer < layers + at(node).layers;
    return {node, banned ? banned_.layer - layers : -1};
  }
  /// The layers before a residual of this key: for those without the banned layer, a number that says so.
  int layers_before(residual_key const& key) const {
    return key.banned < 0 ? std::numeric_limits<int>::max() / 2 : banned_.layer - key.banned;
  }

  /// The labels of a residual whose input is made in a way.
  label_list const& sums_from(int node, std::int16_t made, int layers) {
    auto& rows = tables_[key_of(node, layers)];
    auto const& e = edges(at(node).input.rank);
    if (rows.empty()) rows.resize(e.values.size());
    const std::int16_t value = e.made_value[static_cast<std::size_t>(made)];
    auto& row = rows[static_cast<std::size_t>(value)];
    if (!row) row = join(node, value, layers, sides_from(node, value, layers));
    return (*row)[static_cast<std::size_t>(e.made_set[static_cast<std::size_t>(made)])];
  }

  /// Both sides of a residual from one value, whose gradient each leaves partial along some axes that replicate it.
  /// They are known until the same residual is asked for with another value.
  sides const& sides_from(int node, std::int16_t value, int layers) {
    const residual_key key = key_of(node, layers);
    auto& [of, known] = sides_.try_emplace(key, std::int16_t{-1}, sides{}).first->second;
    if (of != value) {
      known = find_sides(node, value, layers, key);
      of = value;
    }
    return known;
  }
  sides find_sides(int node, std::int16_t value, int layers, residual_key const& key) {
    search_node const& n = at(node);
    auto const& e = edges(n.input.rank);
    sides out;
    for (int set = 0; set < sets; ++set) {
      search_label start;
      start.made = e.made_at[static_cast<std::size_t>(value * sets + set)];
      if (start.made < 0 || (set != 0 && !n.wants_input)) continue;
      const auto i = static_cast<std::size_t>(set);
      out.branch[i] = follow(n.parts[0], {start}, layers, false,
                             [&](label_bounds const& b) { return &b.of(key, value).branch[i]; });
      out.shortcut[i] = n.parts.size() == 1
                            ? run{{start}}
                            : follow(n.parts[1], {start}, layers + at(n.parts[0]).layers, false,
                                     [&](label_bounds const& b) { return &b.of(key, value).shortcut[i]; });
    }
    return out;
  }

  /// What a change of layout changes, and how often.
  search_value const& word_value(line_part const& word) const {
    return word.at == line_part::place::before ? at(word.node).input : at(word.node).output;
  }
  pass_counts word_passes(line_part const& word) const {
    search_node const& n = at(word.node);
    return {n.forwards, int{n.wants_input || (word.at == line_part::place::after && n.learns)}};
  }
  static pass_counts passes_of(search_node const& n) { return {n.forwards, int{n.wants_input}}; }
  pass_counts passes_of_branch(search_node const& n) const {
    return {n.forwards, int{n.wants_input || at(n.parts[0]).learns}};
  }
  pass_counts passes_of_shortcut(search_node const& n) const {
    return {n.forwards, int{n.wants_input || (n.parts.size() > 1 && at(n.parts[1]).learns)}};
  }

  meeting meet(int node, sides const& both) {
    search_node const& n = at(node);
    meeting out;
    for (run const& one : both.branch) out.branch.push_back(last_arrivals(n, passes_of_branch(n), one, false));
    for (run const& one : both.shortcut)
      out.shortcut.push_back(last_arrivals(n, passes_of_shortcut(n), one, !n.any_layout));
    return out;
  }
  /// The time of adding the gradients that both sides leave, brought to where they are alike: partial where both are.
  search_time gradients_time(int node, std::int16_t value, int branch, int shortcut) {
    search_node const& n = at(node);
    if (!n.wants_input) return 0;
    auto const& e = edges(n.input.rank);
    const std::int16_t common = e.gradient(value, branch & shortcut);
    return n.gradient_sum_times[static_cast<std::size_t>(value)] +
           links_.route_time(n.input.rank, e.gradient(value, branch), common, n.input.bytes) +
           links_.route_time(n.input.rank, e.gradient(value, shortcut), common, n.input.bytes);
  }

  /// Calls `f(way, bytes)` for the ways of a layer that may be chosen.
  template <class F>
  void each_way(search_node const& n, int layer, F f) const {
    const edge_code tie = n.tie < 0 ? 0 : ties_[static_cast<std::size_t>(n.tie)];
    const index_t least = n.least_bytes();
    for (layer_way const& way : n.ways)
      if ((tie == 0 || way.tie == tie) && !banned_.has(layer, way.cut))
        f(way, n.cut_bytes[static_cast<std::size_t>(way.cut)] - least);
  }
  /// Calls `f(made, time)` for what a word makes of a label's value.
  template <class F>
  void each_target(search_node const& n, search_label const& label, F f) {
    edge_rows const& rows = links_.rows(n.input.rank, n.input.bytes, passes_of(n));
    auto const& e = edges(n.input.rank);
    const std::int16_t value = e.made_value[static_cast<std::size_t>(label.made)];
    const std::int16_t target = n.targets[static_cast<std::size_t>(value)];
    for (int set = 0; set < (n.wants_input ? sets : 1); ++set) {
      const std::int16_t made = e.made_at[static_cast<std::size_t>(target * sets + set)];
      if (made < 0) continue;
      const std::int16_t k = e.made_taken[static_cast<std::size_t>(made)];
      if (k >= 0 && rows.made_from(value)[k] == label.made)
        f(static_cast<std::size_t>(made), rows.times_from(value)[k]);
    }
  }
  /// The bytes of a recomputed part's input, beyond the least.
  index_t kept(search_node const& n, std::int16_t made) {
    return n.kept_bytes[static_cast<std::size_t>(edges(n.input.rank).made_value[static_cast<std::size_t>(made)])] -
           n.least_bytes();
  }

 private:
  void open(line& out, int node, int& layers, int& sums) const {
    search_node const& n = at(node);
    const bool words = n.words && (n.kind == search_kind::residual || n.kind == search_kind::recompute);
    if (words) out.push_back({node, layers, sums, line_part::place::before});
    if (n.kind != search_kind::chain) out.push_back({node, layers, sums});
    if (n.kind == search_kind::chain || n.kind == search_kind::recompute) {
      for (const int part : n.parts) open(out, part, layers, sums);
    } else {
      if (words) out.push_back({node, layers, sums, line_part::place::after});
      layers += n.layers;
      sums += n.sums;
    }
  }

  /// Whoever wants the input's gradient takes it partial too.
  label_list beginnings() {
    label_list out;
    auto const& e = edges(graph_.root().input.rank);
    for (const std::int16_t made : e.taken_made) {
      search_label label;
      label.made = made;
      if (e.made_set[static_cast<std::size_t>(made)] == 0 || graph_.root().wants_input) out.push_back(label);
    }
    return out;
  }

  /// `to_go` picks what a bound says of this line.
  template <class ToGo>
  run follow(int node, label_list first, int layers, bool anywhere, ToGo to_go) {
    line const& parts = line_of(node);
    run out{std::move(first)};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].at == line_part::place::node)
        out.push_back(after(parts[i].node, out.back(), layers + parts[i].layers, anywhere && i == 0));
      else
        out.push_back(this->settled(word_value(parts[i]), word_passes(parts[i]), out.back()));
      for (label_bounds const& b : bounds_) b.cut(out.back(), (*to_go(b))[i + 1]);
    }
    return out;
  }

  label_list after(int node, label_list const& before, int layers, bool anywhere) {
    search_node const& n = at(node);
    label_slots best(edges(n.output.rank).made.size(), rule_);
    switch (n.kind) {
      case search_kind::layer: {
        const label_slots reached =
            anywhere ? this->as_taken(n.input, before) : this->arrivals(n.input, passes_of(n), before);
        each_way(n, layers, [&](layer_way const& way, index_t bytes) {
          for (search_label const& label : reached[static_cast<std::size_t>(way.taken)]) {
            search_label next = passed(label, static_cast<std::size_t>(label.from), way.time, bytes);
            next.choice = static_cast<std::int32_t>(way.cut);
            best.offer(static_cast<std::size_t>(way.made), next);
          }
        });
        break;
      }
      case search_kind::word:
        for (std::size_t i = 0; i < before.size(); ++i)
          each_target(n, before[i],
                      [&](std::size_t made, search_time time) { best.offer(made, passed(before[i], i, time)); });
        break;
      case search_kind::recompute:
        for (std::size_t i = 0; i < before.size(); ++i)
          best.offer(static_cast<std::size_t>(before[i].made), passed(before[i], i, 0, kept(n, before[i].made)));
        break;
      default:
        for (std::size_t i = 0; i < before.size(); ++i) {
          label_list const& sums = sums_from(node, before[i].made, layers);
          for (std::size_t s = 0; s < sums.size(); ++s) {
            search_label next = passed(before[i], i, sums[s].time, sums[s].bytes);
            next.cost = before[i].cost + sums[s].cost;
            next.other = static_cast<std::int32_t>(s);
            best.offer(static_cast<std::size_t>(sums[s].made), next);
          }
        }
    }
    return best.list();
  }

  label_slots last_arrivals(search_node const& n, pass_counts passes, run const& one, bool same_layout) {
    return one.empty() ? label_slots(0, rule_)
                       : this->arrivals(n.output, passes, one.back(), same_layout ? ways::same_layout : ways::all);
  }

  /// The labels of a sum, by where the gradient of the residual's input is partial: where both sides leave it so.
  sum_labels join(int node, std::int16_t value, int layers, sides const& both) {
    search_node const& n = at(node);
    auto const& e = edges(n.output.rank);
    const meeting met = meet(node, both);
    std::vector<label_slots> best(sets, label_slots(e.made.size(), rule_));
    for (int b = 0; b < sets; ++b)
      for (int s = 0; s < sets; ++s) {
        label_slots const& branch = met.branch[static_cast<std::size_t>(b)];
        label_slots const& shortcut = met.shortcut[static_cast<std::size_t>(s)];
        if (branch.size() == 0 || shortcut.size() == 0) continue;
        const search_time together = gradients_time(node, value, b, s);
        label_slots& out = best[static_cast<std::size_t>(b & s)];
        for (std::size_t k = 0; k < e.taken.size(); ++k)
          for (search_label const& one : branch[k])
            for (search_label const& two : shortcut[k]) {
              search_label sum = passed(one, static_cast<std::size_t>(one.from), together + n.sum_times[k]);
              sum.time += two.time;
              sum.bytes += two.bytes;
              sum.cost += two.cost;
              sum.other = two.from;
              sum.choice = b * sets + s;
              out.offer(static_cast<std::size_t>(e.taken_made[k]), sum);
            }
      }
    sum_labels out;
    for (std::size_t set = 0; set < best.size(); ++set) {
      out.push_back(best[set].list());
      if (!out.back().empty())
        for (label_bounds const& b : bounds_) b.cut(out.back(), b.of(key_of(node, layers), value).sum[set]);
    }
    return out;
  }

  search_graph<Axes> const& graph_;
  std::vector<edge_code> ties_;
  banned_cuts banned_;
  std::vector<label_bounds> bounds_;
  run whole_{};
  std::map<int, line> lines_{};
  std::map<residual_key, std::pair<std::int16_t, sides>> sides_{};
  std::map<residual_key, std::vector<std::optional<sum_labels>>> tables_{};
};

}  // namespace tessera::detail
