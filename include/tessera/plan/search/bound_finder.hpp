#pragma once

#include <tessera/plan/search/label_search.hpp>

namespace tessera::detail {

/// Follows a search by weight, of one label a state, backwards.
template <int Axes>
class bound_finder {
  using search_type = label_search<Axes>;
  using run = typename search_type::run;
  using weights = label_bounds::weights;
  using line_weights = label_bounds::line_weights;
  using row = label_bounds::row;
  static constexpr search_time never = label_bounds::never;

 public:
  explicit bound_finder(search_type& search) : search_(search), price_(search.rule().weight) {}

  label_bounds find(double most) {
    out_.weight = price_;
    out_.most = most;
    const int root = static_cast<int>(search_.graph().nodes.size()) - 1;
    out_.model = line_to_go(root, search_.whole(), search_.weights_at_end(), 0);
    // Residuals come after their parts in the graph: those around first. Those inside are added on the way.
    for (auto it = out_.residuals.rbegin(); it != out_.residuals.rend(); ++it) go_inside(it->first, it->second);
    return std::move(out_);
  }

 private:
  /// From the ends of a line to its second state; residuals on the way learn what is around them.
  line_weights line_to_go(int node, run const& labels, weights end, int layers) {
    auto const& parts = search_.line_of(node);
    line_weights out(parts.size() + 1);
    out.back() = std::move(end);
    for (std::size_t i = parts.size(); i-- > 0;) {
      search_node const& n = search_.at(parts[i].node);
      const int here = layers + parts[i].layers;
      const bool word = parts[i].at != search_type::line_part::place::node;
      if (n.kind == search_kind::residual && !word) note_around(parts[i].node, labels[i], out[i + 1], here);
      if (i == 0) break;
      out[i] = word ? before_word(parts[i], out[i + 1]) : before(parts[i].node, labels[i], out[i + 1], here);
    }
    return out;
  }

  weights before_word(typename search_type::line_part const& word, weights const& after) {
    search_value const& value = search_.word_value(word);
    auto const& edges = search_.edges(value.rank);
    weights taken;
    for (const std::int16_t made : edges.taken_made) taken.push_back(after[static_cast<std::size_t>(made)]);
    weights out = search_.weights_before(value, search_.word_passes(word), taken);
    for (std::size_t m = 0; m < out.size(); ++m) out[m] = std::min(out[m], after[m]);
    return out;
  }

  weights before(int node, label_list const& labels, weights const& after, int layers) {
    search_node const& n = search_.at(node);
    auto const& edges = search_.edges(n.input.rank);
    weights out(edges.made.size(), never);
    switch (n.kind) {
      case search_kind::layer: {
        weights taken(edges.taken.size(), never);
        search_.each_way(n, layers, [&](layer_way const& way, index_t bytes) {
          search_time& best = taken[static_cast<std::size_t>(way.taken)];
          best = std::min(best, price_.of(way.time, bytes) + after[static_cast<std::size_t>(way.made)]);
        });
        return search_.weights_before(n.input, {n.forwards, int{n.wants_input}}, taken);
      }
      case search_kind::word:
        for (search_label const& label : labels)
          search_.each_target(n, label, [&](std::size_t made, search_time time) {
            search_time& best = out[static_cast<std::size_t>(label.made)];
            best = std::min(best, price_.of(time, 0) + after[made]);
          });
        return out;
      case search_kind::recompute:
        for (search_label const& label : labels) {
          const auto m = static_cast<std::size_t>(label.made);
          out[m] = price_.of(0, search_.kept(n, label.made)) + after[m];
        }
        return out;
      default:
        for (search_label const& label : labels)
          for (search_label const& sum : search_.sums_from(node, label.made, layers)) {
            search_time& best = out[static_cast<std::size_t>(label.made)];
            best = std::min(best, sum.cost + after[static_cast<std::size_t>(sum.made)]);
          }
        return out;
    }
  }

  void note_around(int node, label_list const& labels, weights const& after, int layers) {
    search_node const& n = search_.at(node);
    auto const& edges = search_.edges(n.input.rank);
    std::vector<row>& all = out_.residuals[search_.key_of(node, layers)];
    if (all.empty()) all.resize(edges.values.size());
    for (search_label const& label : labels) {
      const auto m = static_cast<std::size_t>(label.made);
      row& here = all[static_cast<std::size_t>(edges.made_value[m])];
      if (here.sum.empty()) here.sum.assign(search_type::sets, weights(after.size(), never));
      weights& sum = here.sum[static_cast<std::size_t>(edges.made_set[m])];
      for (std::size_t j = 0; j < sum.size(); ++j) sum[j] = std::min(sum[j], label.cost + after[j]);
    }
  }

  void go_inside(residual_key const& key, std::vector<row>& all) {
    search_node const& n = search_.at(key.node);
    auto const& edges = search_.edges(n.output.rank);
    const int layers = search_.layers_before(key);
    for (std::size_t v = 0; v < all.size(); ++v) {
      if (all[v].sum.empty()) continue;
      const auto value = static_cast<std::int16_t>(v);
      const auto both = search_.sides_from(key.node, value, layers);
      const auto meet = search_.meet(key.node, both);
      all[v].branch.resize(search_type::sets);
      all[v].shortcut.resize(search_type::sets);
      std::vector<weights> to_branch(search_type::sets, weights(edges.taken.size(), never));
      std::vector<weights> to_shortcut = to_branch;
      for (int b = 0; b < search_type::sets; ++b)
        for (int s = 0; s < search_type::sets; ++s) {
          const auto i = static_cast<std::size_t>(b);
          const auto j = static_cast<std::size_t>(s);
          if (both.branch[i].empty() || both.shortcut[j].empty()) continue;
          const search_time bring = search_.gradients_time(key.node, value, b, s);
          weights const& around = all[v].sum[static_cast<std::size_t>(b & s)];
          for (std::size_t k = 0; k < edges.taken.size(); ++k) {
            const search_time rest =
                price_.of(bring + n.sum_times[k], 0) + around[static_cast<std::size_t>(edges.taken_made[k])];
            if (!meet.shortcut[j][k].empty())
              to_branch[i][k] = std::min(to_branch[i][k], meet.shortcut[j][k].front().cost + rest);
            if (!meet.branch[i][k].empty())
              to_shortcut[j][k] = std::min(to_shortcut[j][k], meet.branch[i][k].front().cost + rest);
          }
        }
      for (std::size_t set = 0; set < to_branch.size(); ++set) {
        if (both.branch[set].empty()) continue;
        all[v].branch[set] =
            line_to_go(n.parts[0], both.branch[set],
                       search_.weights_before(n.output, search_.passes_of_branch(n), to_branch[set]), layers);
        weights end = search_.weights_before(n.output, search_.passes_of_shortcut(n), to_shortcut[set], !n.any_layout);
        if (n.parts.size() > 1)
          all[v].shortcut[set] =
              line_to_go(n.parts[1], both.shortcut[set], std::move(end), layers + search_.at(n.parts[0]).layers);
        else
          all[v].shortcut[set] = {std::move(end)};
      }
    }
  }

  search_type& search_;
  label_weight price_;
  label_bounds out_{};
};

}  // namespace tessera::detail
