#pragma once

#include <tessera/plan/search/graph.hpp>
#include <tessera/plan/search/labels.hpp>
#include <tessera/plan/search/run_links.hpp>

namespace tessera::detail {

/// How labels of a search go along an edge of a model, from the ways in which a value is made to those in which it is
/// taken; and weights the other way.
template <int Axes>
class label_links {
 public:
  static constexpr search_time never = std::numeric_limits<search_time>::max() / 4;
  using weights = std::vector<search_time>;

  label_links(run_links<Axes>& links, label_rule const& rule) : links_(links), rule_(rule) {}

  label_rule const& rule() const { return rule_; }
  rank_edges<Axes> const& edges(int rank) { return links_.edges(rank); }

  search_label passed(search_label label, std::size_t from, search_time time, index_t bytes = 0) const {
    label.time += time;
    label.bytes += bytes;
    label.cost += rule_.weight.of(time, bytes);
    label.from = static_cast<std::int32_t>(from);
    return label;
  }

  /// Ways of taking a value: all; those of a sum with the layout of its shortcut; those in which the value has another
  /// layout than it was made in.
  enum class ways { all, same_layout, other_values };

  /// The best labels for each way of taking a value.
  label_slots arrivals(search_value const& value, pass_counts passes, label_list const& before,
                       ways wanted = ways::all) {
    edge_rows const& rows = links_.rows(value.rank, value.bytes, passes);
    auto const& e = edges(value.rank);
    label_slots out(e.taken.size(), rule_);
    if (rule_.keep == 1 && !rule_.limited && wanted != ways::same_layout) {
      soonest_arrivals(out, rows, e, before);
      return out;
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::int16_t v = e.made_value[static_cast<std::size_t>(before[i].made)];
      search_time const* times = rows.times_from(v);
      std::int16_t const* made = rows.made_from(v);
      for (std::size_t k = 0; k < e.taken.size(); ++k) {
        if (made[k] != before[i].made) continue;
        if (wanted == ways::same_layout && !keeps_layout<Axes>(e.values[static_cast<std::size_t>(v)], e.taken[k])) continue;
        if (wanted == ways::other_values && e.made_value[static_cast<std::size_t>(e.taken_made[k])] == v) continue;
        out.offer(k, passed(before[i], i, times[k]));
      }
    }
    out.prune();
    return out;
  }
  /// The same for a value that may come in any layout.
  label_slots as_taken(search_value const& value, label_list const& before) {
    auto const& e = edges(value.rank);
    label_slots out(e.taken.size(), rule_);
    for (std::size_t i = 0; i < before.size(); ++i)
      out.offer(static_cast<std::size_t>(e.made_taken[static_cast<std::size_t>(before[i].made)]),
                passed(before[i], i, 0));
    return out;
  }
  /// Labels as they are, and in all other layouts.
  label_list settled(search_value const& value, pass_counts passes, label_list const& before) {
    auto const& e = edges(value.rank);
    label_slots best(e.made.size(), rule_);
    for (std::size_t i = 0; i < before.size(); ++i)
      best.offer(static_cast<std::size_t>(before[i].made), passed(before[i], i, 0));
    const label_slots reached = arrivals(value, passes, before, ways::other_values);
    for (std::size_t k = 0; k < reached.size(); ++k)
      for (search_label const& label : reached[k]) best.offer(static_cast<std::size_t>(e.taken_made[k]), label);
    return best.list();
  }

  /// The least weight from each way of making a value on, given that from each way of taking it.
  weights weights_before(search_value const& value, pass_counts passes, weights const& taken,
                         bool same_layout = false) {
    edge_rows const& rows = links_.rows(value.rank, value.bytes, passes);
    auto const& e = edges(value.rank);
    weights out(e.made.size(), never);
    for (std::size_t v = 0; v < e.values.size(); ++v) {
      search_time const* times = rows.times_from(static_cast<int>(v));
      std::int16_t const* made = rows.made_from(static_cast<int>(v));
      for (std::size_t k = 0; k < taken.size(); ++k) {
        if (taken[k] >= never || (same_layout && !keeps_layout<Axes>(e.values[v], e.taken[k]))) continue;
        search_time& best = out[static_cast<std::size_t>(made[k])];
        best = std::min(best, rule_.weight.of(times[k], 0) + taken[k]);
      }
    }
    return out;
  }

 private:
  /// A value that is made no sooner than all ways of taking are reached from others leads nowhere sooner.
  void soonest_arrivals(label_slots& out, edge_rows const& rows, rank_edges<Axes> const& e,
                        label_list const& before) const {
    weights cost(e.made.size(), never);
    weights soonest(e.values.size(), never);
    std::vector<std::int32_t> label(e.made.size(), -1);
    std::vector<std::int16_t> order;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const auto m = static_cast<std::size_t>(before[i].made);
      cost[m] = before[i].cost;
      label[m] = static_cast<std::int32_t>(i);
      search_time& here = soonest[static_cast<std::size_t>(e.made_value[m])];
      if (here == never) order.push_back(e.made_value[m]);
      here = std::min(here, before[i].cost);
    }
    std::sort(order.begin(), order.end(), [&](std::int16_t a, std::int16_t b) {
      return soonest[static_cast<std::size_t>(a)] < soonest[static_cast<std::size_t>(b)];
    });
    const auto takes = static_cast<std::size_t>(rows.takes);
    weights best(takes, never);
    std::vector<std::int16_t> from(takes, -1);
    search_time latest = never;
    for (const std::int16_t v : order) {
      if (soonest[static_cast<std::size_t>(v)] >= latest) break;
      search_time const* times = rows.times_from(v);
      std::int16_t const* made = rows.made_from(v);
      latest = 0;
      for (std::size_t k = 0; k < takes; ++k) {
        const search_time one = cost[static_cast<std::size_t>(made[k])] + rule_.weight.time * times[k];
        if (one < best[k]) {
          best[k] = one;
          from[k] = made[k];
        }
        latest = std::max(latest, best[k]);
      }
    }
    for (std::size_t k = 0; k < takes; ++k) {
      if (from[k] < 0) continue;
      const auto i = static_cast<std::size_t>(label[static_cast<std::size_t>(from[k])]);
      out.offer(k, passed(before[i], i, rows.times_from(e.made_value[static_cast<std::size_t>(from[k])])[k]));
    }
  }

 protected:
  run_links<Axes>& links_;
  label_rule rule_;
};

}  // namespace tessera::detail
