#pragma once

#include <tessera/core/error.hpp>
#include <tessera/plan/search/bound_finder.hpp>
#include <tessera/plan/search/search_plan.hpp>

#include <algorithm>
#include <cmath>
#include <string>

namespace tessera {

/// What a plan may be.
struct plan_request {
  /// The most bytes that layers may keep on the device with the largest blocks, counted as `graph_of` does.
  index_t most_bytes = std::numeric_limits<index_t>::max();
  /// A layer some of whose cuts are not wanted (-1: none), by its place in `search_plan::cuts`, and these cuts.
  int without_layer = -1;
  std::vector<int> without_cuts{};
  /// By which share the best plan may take less time than the one that is found within a limit on bytes. Of several
  /// plans (`best_of`) all are exact.
  double tolerance = 0;
};

/// A layer of a graph, as often as it comes.
struct planned_layer {
  int node = 0;        ///< of the graph
  std::string path{};  ///< its place, as parameters are named: `2.branch.0`
};

/// Finds plans of least time for a model on a mesh at run time, exactly: no other choice of cuts and of layouts of sums
/// takes less.
///
///     planner<2> at_run_time(graph_of<problem, model, shape<2>{{256, 64}}>(1));
///     const search_plan best = at_run_time.best({.most_bytes = 16'000'000'000});
///
/// The first search on a mesh also finds the routes between all layouts, which later ones use again. Not for several
/// threads at a time.
template <int Axes>
class planner {
 public:
  explicit planner(search_graph<Axes> graph)
      : graph_(std::move(graph)), links_(graph_.mesh, graph_.costs), layers_(), least_bytes_(0) {
    std::string path;
    list(static_cast<int>(graph_.nodes.size()) - 1, path);
    collect_ties();
  }

  search_graph<Axes> const& graph() const { return graph_; }
  /// The layers in the order of `search_plan::cuts`.
  std::vector<planned_layer> const& layers() const { return layers_; }

  /// A plan of least time. Throws where none fits.
  search_plan best(plan_request const& request = {}) { return best_of(1, request).front(); }

  /// The `count` best plans, best first, or all where there are fewer: they differ in a cut, in the layout of a sum,
  /// or, where the model does not begin with a layer, in the layout of the input. Throws where none fits.
  std::vector<search_plan> best_of(int count, plan_request const& request = {}) {
    if (count < 1)
      throw error("a request for " + std::to_string(count) + " plans", "1 or more", "ask for at least one plan");
    std::vector<search_plan> found = search(rule_of(count), request);
    if (request.most_bytes == unlimited) return checked(std::move(found), request);
    refuse_unknown_memory();
    if (static_cast<int>(found.size()) == count && fit(found, request.most_bytes)) return found;
    const search_plan smallest = checked(search(of_bytes(), request), request).front();
    if (smallest.bytes > request.most_bytes) refuse(smallest, request);
    if (count == 1) return {within(found.front(), smallest, request)};
    return search(limited(count, request.most_bytes), request);
  }

  /// A time that no plan within a limit on bytes takes less than; nothing where none is within it. Takes a few searches
  /// without a limit, and is mostly near the time of the best plan. No more is looked for than `enough`.
  std::optional<search_time> least_time(index_t most_bytes,
                                        search_time enough = std::numeric_limits<search_time>::max()) {
    const plan_request request{.most_bytes = most_bytes};
    search_plan fast = best();
    if (fast.bytes <= most_bytes) return fast.time;
    search_plan small = smallest();
    if (small.bytes > most_bytes) return std::nullopt;
    return static_cast<search_time>(price_bytes(std::move(fast), std::move(small), request, enough).least);
  }

  /// A plan of least bytes.
  search_plan smallest() {
    refuse_unknown_memory();
    return checked(search(of_bytes(), {}), {}).front();
  }

  /// For each layer, the best plan that cuts it in another way than `plan` does, the same by axes in another order
  /// apart; nothing where there is none.
  std::vector<std::optional<search_plan>> runners_up(search_plan const& plan, plan_request request = {}) {
    std::vector<std::optional<search_plan>> out;
    for (std::size_t i = 0; i < plan.cuts.size(); ++i) {
      request.without_layer = static_cast<int>(i);
      request.without_cuts = cuts_like(graph_.nodes[static_cast<std::size_t>(layers_[i].node)], plan.cuts[i]);
      out.push_back(find(request));
    }
    return out;
  }

 private:
  static constexpr index_t unlimited = std::numeric_limits<index_t>::max();
  using rule_type = detail::label_rule;

  static rule_type rule_of(int keep) {
    rule_type rule;
    rule.keep = keep;
    return rule;
  }
  /// Bytes alone, a picosecond apart from nothing.
  static rule_type of_bytes() {
    rule_type rule;
    rule.weight = {0, 1};
    return rule;
  }
  rule_type limited(int keep, index_t most_bytes) const {
    rule_type rule = rule_of(keep);
    rule.limited = true;
    rule.most_bytes = most_bytes - least_bytes_;
    return rule;
  }

  static bool fit(std::vector<search_plan> const& plans, index_t most_bytes) {
    return std::all_of(plans.begin(), plans.end(), [&](search_plan const& p) { return p.bytes <= most_bytes; });
  }

  /// The cuts that give each axis the same letter.
  static std::vector<int> cuts_like(search_node const& n, int cut) {
    std::vector<int> like;
    auto const& letters = n.cuts[static_cast<std::size_t>(cut)].letter;
    for (std::size_t i = 0; i < n.cuts.size(); ++i)
      if (static_cast<int>(i) == cut || (!n.letters.empty() && std::equal(letters, letters + Axes, n.cuts[i].letter)))
        like.push_back(static_cast<int>(i));
    return like;
  }

  std::optional<search_plan> find(plan_request const& request) {
    std::vector<search_plan> found = search(rule_of(1), request);
    if (found.empty()) return std::nullopt;
    if (request.most_bytes == unlimited || found.front().bytes <= request.most_bytes) return found.front();
    const search_plan smallest = search(of_bytes(), request).front();
    if (smallest.bytes > request.most_bytes) return std::nullopt;
    return within(found.front(), smallest, request);
  }

  /// What prices of bytes say of plans under a limit.
  struct priced_bytes {
    search_plan best{};   ///< that fits, of those that are least under one of the prices
    double least = 0;     ///< no plan that fits takes less time
    rule_type rule = {};  ///< of the price that says most
  };
  /// The price of bytes that gives the largest lower bound (the Lagrangian dual: M. Fisher, Management Science 27,
  /// 1981), from the secants of the plans found on the way: `fast`, the best of all, exceeds the limit, and `small`
  /// does not. A plan that fits has no more bytes than there is room for, and weighs no less than the least of all.
  priced_bytes price_bytes(search_plan fast, search_plan small, plan_request const& request,
                           search_time enough = std::numeric_limits<search_time>::max()) {
    priced_bytes out{small, static_cast<double>(fast.time), rule_of(1)};
    const double room = static_cast<double>(request.most_bytes - least_bytes_);
    while (fast.bytes > small.bytes && small.time > fast.time && out.least < static_cast<double>(enough)) {
      const double price = static_cast<double>(small.time - fast.time) / static_cast<double>(fast.bytes - small.bytes);
      // Weights must stay whole numbers that a search_time holds.
      if (price * static_cast<double>(fast.bytes) > 1e17) break;
      out.rule.weight.bytes = price;
      const search_plan next = search(out.rule, request).front();
      if (next.bytes <= request.most_bytes && next.time < out.best.time) out.best = next;
      // Both the plan that is found and the one that is sought may be rounded.
      out.least = std::max(out.least, weigh(next, price) - price * room - 2 * slack(weigh(next, price)));
      if (weigh(next, price) >= weigh(fast, price) - 2 * slack(weigh(fast, price))) break;
      (next.bytes <= request.most_bytes ? small : fast) = next;
    }
    return out;
  }

  /// The best plan under a limit, which `fast`, the best of all, exceeds and `small` does not: prices of bytes bound it
  /// from below, plans that fit from above. Then fronts of time and bytes, of the labels between the bounds.
  search_plan within(search_plan fast, search_plan small, plan_request const& request) {
    const priced_bytes priced = price_bytes(std::move(fast), std::move(small), request);
    const double room = static_cast<double>(request.most_bytes - least_bytes_);
    search_plan best = priced.best;
    // Looks for a plan that takes less time than this, of so many labels a state.
    const auto look = [&](double wanted, int thinned) {
      const double most = wanted + priced.rule.weight.bytes * room;
      rule_type fronts = limited(1, request.most_bytes);
      fronts.thinned = thinned;
      const std::vector<search_plan> found =
          search(fronts, request, {{priced.rule, most + slack(most)}, {rule_of(1), wanted}, {of_bytes(), room + 1}});
      if (!found.empty() && found.front().time < best.time) best = found.front();
    };
    const auto good_enough = [&] { return (1 - request.tolerance) * static_cast<double>(best.time) <= priced.least; };
    // Ever more labels a state: a few already find plans that are nearly the best. First only of plans that are good
    // enough, which are few; then the gap to the best that is known narrows the search for the rest.
    for (const int thinned : {8, 24, 64})
      if (request.tolerance > 0 && !good_enough()) look(priced.least / (1 - request.tolerance), thinned);
    for (const int thinned : {8, 64, 0})
      if (!good_enough()) look((1 - request.tolerance) * static_cast<double>(best.time), thinned);
    return best;
  }
  double weigh(search_plan const& p, double price) const {
    return static_cast<double>(p.time) + price * static_cast<double>(p.bytes - least_bytes_);
  }
  /// What rounding can make of a weight: half a picosecond for each layer, and sums of double.
  double slack(double weight) const {
    return static_cast<double>(graph_.root().layers + graph_.root().sums + 1) + 1e-9 * std::abs(weight);
  }

  /// The best plans of all ways to cut the weights that several layers share; of those only that weigh less than
  /// each of the bounds says by its rule.
  std::vector<search_plan> search(rule_type const& rule, plan_request const& request,
                                  std::vector<std::pair<rule_type, double>> const& limits = {}) {
    const detail::banned_cuts banned{request.without_layer, request.without_cuts};
    std::vector<search_plan> all;
    std::vector<edge_code> ties(tie_cuts_.size(), 0);
    const auto go = [&](auto const& self, std::size_t tie) -> void {
      if (tie < ties.size()) {
        for (const edge_code cut : tie_cuts_[tie]) {
          ties[tie] = cut;
          self(self, tie + 1);
        }
        return;
      }
      std::vector<detail::label_bounds> bounds;
      if (rule.keep > 1 && !rule.limited) bounds.push_back(bound_of_several(rule, ties, banned));
      for (auto const& [by, most] : limits) {
        detail::label_search<Axes> weighed(graph_, links_, by, ties, banned);
        bounds.push_back(detail::bound_finder<Axes>(weighed).find(most));
      }
      detail::label_search<Axes> one(graph_, links_, rule, ties, banned, std::move(bounds));
      for (search_plan& plan : detail::plan_reader<Axes>(one).plans()) all.push_back(std::move(plan));
    };
    go(go, 0);
    const auto weight = [&](search_plan const& p) { return rule.limited ? p.time : rule.weight.of(p.time, p.bytes); };
    std::stable_sort(all.begin(), all.end(), [&](auto const& a, auto const& b) { return weight(a) < weight(b); });
    if (static_cast<int>(all.size()) > rule.keep) all.resize(static_cast<std::size_t>(rule.keep));
    return all;
  }

  /// What leaves out all but a few plans beside the `keep` best. The best plans through the states at one place differ,
  /// so the one that is number `keep` of these weighs no less than the one of all plans.
  detail::label_bounds bound_of_several(rule_type const& rule, std::vector<edge_code> const& ties,
                                        detail::banned_cuts const& banned) {
    rule_type one = rule;
    one.keep = 1;
    detail::label_search<Axes> single(graph_, links_, one, ties, banned);
    detail::label_bounds bounds = detail::bound_finder<Axes>(single).find(0);
    const auto last = static_cast<std::size_t>(rule.keep) - 1;
    search_time most = detail::label_bounds::never;
    for (std::size_t i = 1; i < bounds.model.size(); ++i) {
      std::vector<search_time> through;
      for (detail::search_label const& label : single.whole()[i])
        through.push_back(label.cost + bounds.model[i][static_cast<std::size_t>(label.made)]);
      if (through.size() <= last) continue;
      std::nth_element(through.begin(), through.begin() + static_cast<std::ptrdiff_t>(last), through.end());
      most = std::min(most, through[last]);
    }
    bounds.most = static_cast<double>(most) + slack(static_cast<double>(most));
    return bounds;
  }

  /// The ways to cut each shared weight that all of its layers have.
  void collect_ties() {
    tie_cuts_.resize(static_cast<std::size_t>(graph_.ties));
    std::vector<char> seen(tie_cuts_.size(), 0);
    for (search_node const& n : graph_.nodes) {
      if (n.tie < 0) continue;
      const auto tie = static_cast<std::size_t>(n.tie);
      std::vector<edge_code> here;
      for (layer_way const& way : n.ways)
        if (std::find(here.begin(), here.end(), way.tie) == here.end()) here.push_back(way.tie);
      std::vector<edge_code>& both = tie_cuts_[tie];
      if (seen[tie] == 0)
        both = here;
      else
        std::erase_if(both, [&](edge_code c) { return std::find(here.begin(), here.end(), c) == here.end(); });
      seen[tie] = 1;
    }
    // Weights of other parts of a model are cut anyhow.
    for (std::size_t tie = 0; tie < seen.size(); ++tie)
      if (seen[tie] == 0) tie_cuts_[tie] = {0};
  }

  /// Notes the layers of a node and what they keep at the least.
  void list(int node, std::string& path) {
    search_node const& n = graph_.nodes[static_cast<std::size_t>(node)];
    least_bytes_ += n.least_bytes();
    const std::size_t size = path.size();
    const auto child = [&](int part, std::string const& name) {
      path += name;
      list(part, path);
      path.resize(size);
    };
    switch (n.kind) {
      case search_kind::layer: layers_.push_back({node, path.empty() ? path : path.substr(0, path.size() - 1)}); break;
      case search_kind::word: break;
      case search_kind::recompute: child(n.parts[0], ""); break;
      case search_kind::residual:
        child(n.parts[0], "branch.");
        if (n.parts.size() > 1) child(n.parts[1], "shortcut.");
        break;
      case search_kind::chain: {
        int place = 0;
        for (const int part : n.parts) {
          const bool word = graph_.nodes[static_cast<std::size_t>(part)].kind == search_kind::word;
          child(part, word ? "" : std::to_string(place++) + '.');
        }
      }
    }
  }

  void refuse_unknown_memory() const {
    for (planned_layer const& layer : layers_) {
      search_node const& n = graph_.nodes[static_cast<std::size_t>(layer.node)];
      if (!n.memory_known)
        throw error("a memory limit for a model whose layer " + layer.path + " (" + std::string(n.name) +
                        ") does not tell what it keeps",
                    "a layer that does", "give it a member `keeps` or `kept`, or plan without a limit");
    }
  }
  std::vector<search_plan> checked(std::vector<search_plan> found, plan_request const& request) const {
    if (!found.empty()) return found;
    const auto layer = static_cast<std::size_t>(request.without_layer < 0 ? 0 : request.without_layer);
    const bool banned = request.without_layer >= 0 && layer < layers_.size();
    throw error(banned ? "a model whose layer " + layers_[layer].path + " has only the cut that is not wanted"
                       : "a model that has no plan: layers that share a weight cut it in no common way",
                "another one", "allow more cuts, or name none that is not wanted");
  }
  [[noreturn]] void refuse(search_plan const& smallest, plan_request const& request) const {
    std::size_t most = 0;
    const auto bytes = [&](std::size_t i) {
      search_node const& n = graph_.nodes[static_cast<std::size_t>(layers_[i].node)];
      return n.cut_bytes[static_cast<std::size_t>(smallest.cuts[i])];
    };
    for (std::size_t i = 1; i < layers_.size(); ++i)
      if (bytes(i) > bytes(most)) most = i;
    throw error("a limit of " + std::to_string(request.most_bytes) + " bytes a device, " +
                    std::to_string(smallest.bytes - request.most_bytes) + " fewer than any plan keeps; layer " +
                    layers_[most].path + " (" +
                    std::string(graph_.nodes[static_cast<std::size_t>(layers_[most].node)].name) + ") alone keeps " +
                    std::to_string(bytes(most)),
                "at least " + std::to_string(smallest.bytes) + " bytes",
                "raise the limit to that, use more devices, recompute blocks, or choose a smaller batch");
  }

  search_graph<Axes> graph_;
  detail::run_links<Axes> links_;
  std::vector<planned_layer> layers_;
  index_t least_bytes_;
  std::vector<std::vector<edge_code>> tie_cuts_{};
};

}  // namespace tessera
