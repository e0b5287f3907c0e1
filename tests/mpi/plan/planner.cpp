#include <tessera/layer/activation.hpp>
#include <tessera/layer/batch_norm2d.hpp>
#include <tessera/layer/conv2d.hpp>
#include <tessera/layer/embedding.hpp>
#include <tessera/layer/layer_norm.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/layer/relu.hpp>
#include <tessera/plan/machines/h100_server.hpp>
#include <tessera/plan/priced_layers.hpp>
#include <tessera/plan/search/planner.hpp>

#include "support/errors.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <random>

// Plans of random graphs against all combinations of choices. These are priced here as a bound model is: layouts
// forward from the input, gradients backward from the loss.

namespace {

using namespace tessera;
using tessera::index_t;

template <int Axes>
using layout_value = placements<Axes>;

/// What is chosen for a graph.
struct choices {
  std::vector<int> cuts{};
  std::vector<edge_code> sums{};
  std::vector<edge_code> inputs{};   ///< `as_made`, or brought to a layout before the residual
  std::vector<edge_code> outputs{};  ///< the same after it
  std::vector<edge_code> recomputed{};  ///< the same before recomputed parts, in order of forward
  edge_code input = 0;
};
struct outcome {
  search_time time = 0;
  index_t bytes = 0;
  choices chosen{};
};

constexpr edge_code as_made = ~edge_code{0};

/// Prices all choices of a graph.
template <int Axes>
class all_choices {
 public:
  explicit all_choices(search_graph<Axes> const& graph) : graph_(graph) { layers_of(root()); }

  std::vector<outcome> outcomes() {
    std::vector<outcome> all;
    chosen_.cuts.assign(layers_.size(), 0);
    chosen_.sums.assign(sums_.size(), 0);
    chosen_.inputs.assign(sums_.size(), as_made);
    chosen_.outputs = chosen_.inputs;
    chosen_.recomputed.assign(recomputes_.size(), as_made);
    words_.clear();
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (at(sums_[i]).words) {
        words_.push_back({&chosen_.inputs[i], at(sums_[i]).input.rank});
        words_.push_back({&chosen_.outputs[i], at(sums_[i]).output.rank});
      }
    for (std::size_t i = 0; i < recomputes_.size(); ++i)
      if (at(recomputes_[i]).words) words_.push_back({&chosen_.recomputed[i], at(recomputes_[i]).input.rank});
    choose(0, all);
    std::stable_sort(all.begin(), all.end(), [](auto const& a, auto const& b) { return a.time < b.time; });
    return all;
  }
  /// How many `outcomes` there would be, about.
  double count() const {
    double n = first_is_layer() ? 1 : static_cast<double>(whole_layouts(graph_.root().input.rank).size());
    for (const int layer : layers_) n *= static_cast<double>(at(layer).cuts.size());
    for (const int sum : sums_) {
      if (at(sum).any_layout) n *= static_cast<double>(whole_layouts(at(sum).output.rank).size());
      if (at(sum).words)
        n *= static_cast<double>((whole_layouts(at(sum).input.rank).size() + 1) *
                                 (whole_layouts(at(sum).output.rank).size() + 1));
    }
    for (const int part : recomputes_)
      if (at(part).words) n *= static_cast<double>(whole_layouts(at(part).input.rank).size() + 1);
    return n;
  }

 private:
  struct passage {
    layout_value<Axes> out{};
    /// Adds the costs, given the gradient of `out` as it comes back; returns the input's as it is handed on.
    std::function<layout_value<Axes>(layout_value<Axes> const&)> back{};
  };

  int root() const { return static_cast<int>(graph_.nodes.size()) - 1; }
  search_node const& at(int i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
  bool first_is_layer() const {
    int i = root();
    while (at(i).kind == search_kind::chain) i = at(i).parts.front();
    return at(i).kind == search_kind::layer;
  }
  std::vector<edge_code> const& codes(int rank, bool gradients, bool partials) const {
    std::vector<edge_code>& list = codes_[{rank, gradients, partials}];
    if (list.empty()) list = all_edges(graph_.mesh, rank, gradients, partials);
    return list;
  }
  std::vector<edge_code> const& whole_layouts(int rank) const { return codes(rank, false, false); }

  void layers_of(int i) {
    if (at(i).kind == search_kind::layer) layers_.push_back(i);
    if (at(i).kind == search_kind::recompute) recomputes_.push_back(i);
    for (const int part : at(i).parts) layers_of(part);
    if (at(i).kind == search_kind::residual) sums_.push_back(i);
  }

  void choose(std::size_t place, std::vector<outcome>& all) {
    if (place < layers_.size()) {
      for (std::size_t c = 0; c < at(layers_[place]).cuts.size(); ++c) {
        chosen_.cuts[place] = static_cast<int>(c);
        choose(place + 1, all);
      }
    } else if (const std::size_t sum = place - layers_.size(); sum < sums_.size()) {
      if (!at(sums_[sum]).any_layout) return choose(place + 1, all);
      for (const edge_code code : whole_layouts(at(sums_[sum]).output.rank)) {
        chosen_.sums[sum] = code;
        choose(place + 1, all);
      }
    } else if (const std::size_t word = sum - sums_.size(); word < words_.size()) {
      auto const& [layout, rank] = words_[word];
      *layout = as_made;
      choose(place + 1, all);
      for (const edge_code code : whole_layouts(rank)) {
        *layout = code;
        choose(place + 1, all);
      }
    } else if (!first_is_layer()) {
      for (const edge_code code : whole_layouts(graph_.root().input.rank)) {
        chosen_.input = code;
        price(all);
      }
    } else {
      chosen_.input =
          value_of_edge<Axes>(taken_code(layers_.front(), way_of(layers_.front(), chosen_.cuts.front(), 0)));
      price(all);
    }
  }

  void price(std::vector<outcome>& all) {
    edge_code tie = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (at(layers_[i]).tie < 0) continue;
      const edge_code here = way_of(layers_[i], chosen_.cuts[i], 0).tie;
      if (tie != 0 && here != tie) return;
      tie = here;
    }
    now_ = {};
    now_.chosen = chosen_;
    next_layer_ = 0;
    next_sum_ = 0;
    next_recompute_ = 0;
    now_.chosen.recomputed.assign(layers_.size(), 0);
    twice_ = false;
    const passage model = pass(root(), layout_of_edge<Axes>(chosen_.input));
    // The loss takes the cheapest layout.
    search_time least = -1;
    layout_value<Axes> gradient{};
    const search_value value = graph_.root().output;
    for (const edge_code code : whole_layouts(value.rank)) {
      const auto& ways = codes(value.rank, true, false);
      const auto way = std::find(ways.begin(), ways.end(), code) - ways.begin();
      const search_time loss = graph_.loss_times.empty() ? 0 : graph_.loss_times[static_cast<std::size_t>(way)];
      if (loss < 0) continue;
      const auto taken = layout_of_edge<Axes>(code);
      link_cost cost = route(model.out, taken, value.rank);
      const auto handed = gradient_for(model.out, taken);
      if (graph_.root().learns) cost = plus(cost, route(taken, handed, value.rank));
      const search_time t = loss + picoseconds(seconds_of(cost, value.bytes));
      if (least < 0 || t < least) {
        least = t;
        gradient = handed;
      }
    }
    if (twice_) return;
    now_.time += least;
    model.back(gradient);
    all.push_back(now_);
  }

  passage pass(int i, layout_value<Axes> const& in) {
    search_node const& n = at(i);
    switch (n.kind) {
      case search_kind::layer: return pass_layer(i, in);
      case search_kind::word: {
        const auto& list = codes(n.input.rank, false, true);
        const auto here = std::find(list.begin(), list.end(), edge_of(in)) - list.begin();
        const auto to =
            layout_of_edge<Axes>(list[static_cast<std::size_t>(n.targets[static_cast<std::size_t>(here)])]);
        return pass_word(n, n.input, n.wants_input, in, to);
      }
      case search_kind::recompute: {
        const passage word = pass_word_of_choice(n, n.input, n.wants_input, in, chosen_.recomputed[next_recompute_++]);
        const auto& list = codes(n.input.rank, false, true);
        const auto here = std::find(list.begin(), list.end(), edge_of(word.out)) - list.begin();
        now_.bytes += n.kept_bytes[static_cast<std::size_t>(here)];
        const std::size_t first = next_layer_;
        const passage part = pass(n.parts[0], word.out);
        now_.chosen.recomputed[first] = edge_of(word.out);
        return {part.out, [word, part](layout_value<Axes> const& gradient) { return word.back(part.back(gradient)); }};
      }
      case search_kind::residual: return pass_residual(i, in);
      default: {
        std::vector<passage> all;
        layout_value<Axes> here = in;
        for (const int part : n.parts) {
          all.push_back(pass(part, here));
          here = all.back().out;
        }
        return {here, [all](layout_value<Axes> gradient) {
                  for (std::size_t p = all.size(); p-- > 0;) gradient = all[p].back(gradient);
                  return gradient;
                }};
      }
    }
  }

  /// A change of a value at a node to another layout.
  passage pass_word(search_node const& n, search_value const& value, bool wanted, layout_value<Axes> const& in,
                    layout_value<Axes> const& to) {
    return {to, [this, &n, value, wanted, in, to](layout_value<Axes> const& arriving) {
              link_cost cost = times(n.forwards, route(in, to, value.rank));
              const auto handed = wanted ? gradient_for(in, arriving) : dual(in);
              if (wanted) cost = plus(cost, route(arriving, handed, value.rank));
              now_.time += picoseconds(seconds_of(cost, value.bytes));
              return handed;
            }};
  }
  /// The same where there may be a word or none.
  passage pass_word_of_choice(search_node const& n, search_value const& value, bool wanted,
                              layout_value<Axes> const& in, edge_code brought) {
    if (brought == as_made) return {in, [](layout_value<Axes> const& arriving) { return arriving; }};
    const auto to = layout_of_edge<Axes>(brought);
    if (to == in) twice_ = true;  // as it is made: counted already
    return pass_word(n, value, wanted, in, to);
  }

  passage pass_layer(int i, layout_value<Axes> const& in) {
    search_node const& n = at(i);
    const int cut = chosen_.cuts[next_layer_++];
    now_.bytes += n.cut_bytes[static_cast<std::size_t>(cut)];
    const auto& made = codes(n.output.rank, true, true);
    const auto out = layout_of_edge<Axes>(made[static_cast<std::size_t>(way_of(i, cut, 0).made)]);
    return {out, [this, &n, i, in, cut](layout_value<Axes> const& arriving) {
              layer_way const& way = way_of(i, cut, arriving.partial_axes());
              const edge_code taken = taken_code(i, way);
              link_cost cost = times(n.forwards, route(in, layout_of_edge<Axes>(taken), n.input.rank));
              const auto produced = gradient_of_edge<Axes>(taken);
              const auto handed = n.wants_input ? gradient_for(in, produced) : dual(in);
              if (n.wants_input) cost = plus(cost, route(produced, handed, n.input.rank));
              now_.time += way.time + picoseconds(seconds_of(cost, n.input.bytes));
              return handed;
            }};
  }

  passage pass_residual(int i, layout_value<Axes> const& made) {
    search_node const& n = at(i);
    // Sums are counted as they end, and so inputs too.
    const std::size_t last = next_sum_ + static_cast<std::size_t>(n.sums) - 1;
    const passage before = pass_word_of_choice(n, n.input, n.wants_input, made, chosen_.inputs[last]);
    const auto in = before.out;
    const passage branch = pass(n.parts[0], in);
    const bool plain = n.parts.size() == 1;
    const passage shortcut = plain ? passage{in, {}} : pass(n.parts[1], in);
    const edge_code chosen = chosen_.sums[next_sum_++];
    const auto sum = n.any_layout ? layout_of_edge<Axes>(chosen) : dual(shortcut.out);
    now_.chosen.sums[last] = edge_of(sum);
    now_.chosen.inputs[last] = edge_of(in);
    const passage after =
        pass_word_of_choice(n, n.output, n.wants_input || n.learns, sum, chosen_.outputs[last]);
    now_.chosen.outputs[last] = edge_of(after.out);
    return {after.out, [this, &n, in, branch, shortcut, sum, plain, before, after](layout_value<Axes> const& gradient) {
              const auto arriving = after.back(gradient);
              const auto& list = codes(n.output.rank, true, false);
              const edge_code code = edge_of(sum, static_cast<axis_set>(arriving.partial_axes()));
              const auto here = std::find(list.begin(), list.end(), code) - list.begin();
              now_.time += n.sum_times[static_cast<std::size_t>(here)];
              const auto side = [&](layout_value<Axes> const& from, bool wanted) {
                link_cost cost = times(n.forwards, route(from, sum, n.output.rank));
                const auto handed = wanted ? gradient_for(from, arriving) : dual(from);
                if (wanted) cost = plus(cost, route(arriving, handed, n.output.rank));
                now_.time += picoseconds(seconds_of(cost, n.output.bytes));
                return handed;
              };
              const auto to_branch = side(branch.out, n.wants_input || at(n.parts[0]).learns);
              const auto to_shortcut = side(shortcut.out, n.wants_input || (!plain && at(n.parts[1]).learns));
              const auto one = branch.back(to_branch);
              const auto two = plain ? to_shortcut : shortcut.back(to_shortcut);
              if (!n.wants_input) return before.back(dual(in));
              layout_value<Axes> common = one;
              for (int a = 0; a < Axes; ++a)
                if (!(one[a] == two[a])) common[a] = replicated_placement();
              for (auto const& part : {one, two})
                now_.time += picoseconds(seconds_of(route(part, common, n.input.rank), n.input.bytes));
              const auto& values = codes(n.input.rank, false, true);
              const auto input = std::find(values.begin(), values.end(), edge_of(in)) - values.begin();
              now_.time += n.gradient_sum_times[static_cast<std::size_t>(input)];
              return before.back(common);
            }};
  }

  layer_way const& way_of(int layer, int cut, axis_set partial) const {
    search_node const& n = at(layer);
    const auto& made = codes(n.output.rank, true, true);
    for (layer_way const& way : n.ways)
      if (way.cut == cut && partial_gradients_of<Axes>(made[static_cast<std::size_t>(way.made)]) == partial) return way;
    FAIL("no such way");
    return n.ways.front();
  }
  edge_code taken_code(int layer, layer_way const& way) const {
    return codes(at(layer).input.rank, true, false)[static_cast<std::size_t>(way.taken)];
  }

  link_cost route(layout_value<Axes> const& from, layout_value<Axes> const& to, int rank) {
    if (from == to) return {};
    const auto key = std::tuple(edge_of(from), edge_of(to), rank);
    const auto found = routes_.find(key);
    if (found != routes_.end()) return found->second;
    return routes_[key] = cost_of_route(graph_.mesh, graph_.costs, find_route(graph_.mesh, from, to, rank));
  }
  static link_cost plus(link_cost const& a, link_cost const& b) {
    return {a.latency + b.latency, a.seconds_per_byte + b.seconds_per_byte};
  }
  static link_cost times(int n, link_cost const& a) { return {n * a.latency, n * a.seconds_per_byte}; }

  search_graph<Axes> const& graph_;
  std::vector<int> layers_{};
  std::vector<int> sums_{};
  std::vector<int> recomputes_{};
  std::vector<std::pair<edge_code*, int>> words_{};  ///< where a word may be, and the dimensions of the value there
  choices chosen_{};
  outcome now_{};
  std::size_t next_layer_ = 0;
  std::size_t next_sum_ = 0;
  std::size_t next_recompute_ = 0;
  bool twice_ = false;
  std::map<std::tuple<edge_code, edge_code, int>, link_cost> routes_{};
  mutable std::map<std::tuple<int, bool, bool>, std::vector<edge_code>> codes_{};
};

/// Random graphs of a few layers. All times are whole picoseconds.
template <int Axes>
class random_graphs {
 public:
  random_graphs(mesh_sizes<Axes> const& mesh, unsigned seed) : mesh_(mesh), random_(seed) {}

  search_graph<Axes> next() {
    for (;;) {
      graph_ = {};
      graph_.mesh = mesh_;
      for (int set = 1; set < graph_.costs.sets; ++set) {
        graph_.costs.gather[set] = {upto(40) * 1e-12, 64 * upto(40) * 1e-12};
        graph_.costs.exchange[set] = {upto(40) * 1e-12, 64 * upto(40) * 1e-12};
      }
      rank_ = mesh_.devices() > 4 && Axes > 2 ? 1 : 1 + upto(1);
      tied_ = one_in(5);
      left_ = 2 + upto(3);
      add_chain(false, 1, true);
      if (one_in(2))
        for (std::size_t k = 0; k < all_edges(mesh_, rank_, true, false).size(); ++k)
          graph_.loss_times.push_back(k > 0 && one_in(4) ? -1 : upto(40));
      if (left_ > 0 || all_choices<Axes>(graph_).count() > 800) continue;
      return graph_;
    }
  }
  int upto(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most + 1)); }

 private:
  bool one_in(int n) { return upto(n - 1) == 0; }
  template <class List>
  auto some(List const& list) {
    return list[static_cast<std::size_t>(upto(static_cast<int>(list.size()) - 1))];
  }
  search_node node(search_kind kind, bool wants, int forwards) {
    search_node n;
    n.kind = kind;
    n.wants_input = wants;
    n.forwards = forwards;
    n.input = n.output = {rank_, static_cast<double>(1 + upto(3))};
    return n;
  }
  int add(search_node n) {
    for (const int part : n.parts) {
      n.layers += at(part).layers;
      n.sums += at(part).sums;
      n.learns = n.learns || at(part).learns;
    }
    graph_.nodes.push_back(std::move(n));
    return static_cast<int>(graph_.nodes.size()) - 1;
  }
  search_node const& at(int i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }

  int add_layer(bool wants, int forwards) {
    --left_;
    search_node n = node(search_kind::layer, wants, forwards);
    n.layers = 1;
    n.learns = !one_in(3);
    if (tied_ && n.learns && graph_.ties < 2) {
      n.tie = 0;
      graph_.ties = 1;
    }
    const auto takes = all_edges(mesh_, n.input.rank, true, false);
    const auto makes = all_edges(mesh_, n.output.rank, true, true);
    const auto values = all_edges(mesh_, n.output.rank, false, true);
    const auto inputs = all_edges(mesh_, n.input.rank, false, false);
    const int cuts = 2 + upto(2);
    for (int c = 0; c < cuts; ++c) {
      n.cuts.emplace_back();
      n.cut_bytes.push_back(upto(30));
      const edge_code from = some(inputs);
      const edge_code to = some(values);
      const edge_code tie = static_cast<edge_code>(1 + upto(1));
      const bool linear = one_in(2);
      const bool backward = wants || n.learns;
      const int own = upto((1 << Axes) - 1);
      for (int set = 0; set < 1 << Axes; ++set) {
        edge_code made = to;
        bool fits = backward || set == 0;
        for (int a = 0; a < Axes; ++a)
          if (set >> a & 1) {
            fits = fits && edge::at(to, a) == edge::whole;
            made = edge::with(made, a, edge::partial_gradient);
          }
        if (!fits) continue;
        edge_code taken = from;
        const int left = wants ? (linear ? own | set : own) : 0;
        for (int a = 0; a < Axes; ++a)
          if ((left >> a & 1) != 0 && edge::at(from, a) == edge::whole)
            taken = edge::with(taken, a, edge::partial_gradient);
        layer_way way;
        way.cut = static_cast<std::int16_t>(c);
        way.tie = n.tie < 0 ? 0 : tie;
        way.time = upto(60);
        way.taken = static_cast<std::int16_t>(std::find(takes.begin(), takes.end(), taken) - takes.begin());
        way.made = static_cast<std::int16_t>(std::find(makes.begin(), makes.end(), made) - makes.begin());
        n.ways.push_back(way);
      }
    }
    return add(n);
  }

  int add_word(bool wants, int forwards) {
    search_node n = node(search_kind::word, wants, forwards);
    n.output = n.input;
    const auto values = all_edges(mesh_, rank_, false, true);
    const auto targets = all_edges(mesh_, rank_, false, false);
    const bool fixed = one_in(2);
    const edge_code to = some(targets);
    for (std::size_t v = 0; v < values.size(); ++v)
      n.targets.push_back(static_cast<std::int16_t>(
          std::find(values.begin(), values.end(), fixed ? to : some(targets)) - values.begin()));
    return add(n);
  }

  int add_residual(bool wants, int forwards) {
    search_node n = node(search_kind::residual, wants, forwards);
    n.sums = 1;
    n.parts.push_back(one_in(2) ? add_layer(wants, forwards) : add_chain(wants, forwards));
    n.any_layout = true;
    if (one_in(2)) {
      const bool chain = one_in(2);
      n.any_layout = chain;
      n.parts.push_back(chain ? add_chain(wants, forwards) : add_layer(wants, forwards));
    }
    for (std::size_t k = 0; k < all_edges(mesh_, rank_, true, false).size(); ++k) n.sum_times.push_back(upto(30));
    for (std::size_t v = 0; v < all_edges(mesh_, rank_, false, true).size(); ++v)
      n.gradient_sum_times.push_back(upto(30));
    n.words = one_in(2);
    return add(n);
  }

  int add_recompute(bool wants, int forwards) {
    search_node n = node(search_kind::recompute, wants, forwards);
    // A part that learns nothing and hands nothing back is not run again.
    n.parts.push_back(add_chain(wants, forwards + 1));
    for (std::size_t v = 0; v < all_edges(mesh_, rank_, false, true).size(); ++v) n.kept_bytes.push_back(upto(20));
    n.words = one_in(2);
    return add(n);
  }

  int add_chain(bool wants, int forwards, bool outermost = false) {
    search_node n = node(search_kind::chain, wants, forwards);
    bool wanted = wants;
    int again = -1;
    const int parts = outermost ? 4 : 1 + upto(2);
    for (int p = 0; p < parts && (left_ > 0 || n.parts.empty()); ++p) {
      int part = -1;
      const int what = upto(outermost ? 9 : 12);
      if (again >= 0 && one_in(3)) {
        part = again;  // a block that comes again
        left_ -= at(part).layers;
      } else {
        part = what < 4   ? add_residual(wanted, forwards)
               : what < 5 ? add_recompute(wanted, forwards)
               : what < 6 ? add_word(wanted, forwards)
                          : add_layer(wanted, forwards);
        if (wanted) again = part;
      }
      n.parts.push_back(part);
      wanted = wanted || at(part).learns;
    }
    n.input = at(n.parts.front()).input;
    return add(n);
  }

  mesh_sizes<Axes> mesh_;
  std::minstd_rand random_;
  search_graph<Axes> graph_{};
  int rank_ = 1;
  int left_ = 0;
  bool tied_ = false;
};

/// The time of a plan under a limit that combination allows, -1 where none does.
search_time least(std::vector<outcome> const& all, index_t most_bytes) {
  for (outcome const& one : all)
    if (one.bytes <= most_bytes) return one.time;
  return -1;
}

/// Compares plans for `count` graphs with all combinations.
template <int Axes>
void compare(mesh_sizes<Axes> const& mesh, unsigned seed, int count) {
  random_graphs<Axes> graphs(mesh, seed);
  for (int g = 0; g < count; ++g) {
    const search_graph<Axes> graph = graphs.next();
    const std::vector<outcome> all = all_choices<Axes>(graph).outcomes();
    planner<Axes> found(graph);
    CAPTURE(seed);
    CAPTURE(g);
    if (all.empty()) {
      CHECK_THROWS_AS(found.best(), error);
      continue;
    }
    const auto best = found.best_of(4);
    REQUIRE(best.size() == std::min<std::size_t>(4, all.size()));
    CHECK(found.best().time == all.front().time);
    for (std::size_t i = 0; i < best.size(); ++i) CHECK(best[i].time == all[i].time);

    // The plan is one of the combinations, with its time and bytes.
    const auto same = [&](search_plan const& plan) {
      return std::any_of(all.begin(), all.end(), [&](outcome const& o) {
        return o.time == plan.time && o.bytes == plan.bytes && o.chosen.cuts == plan.cuts &&
               o.chosen.sums == plan.sums && o.chosen.inputs == plan.inputs && o.chosen.outputs == plan.outputs &&
               o.chosen.recomputed == plan.recomputed && o.chosen.input == plan.input;
      });
    };
    for (search_plan const& plan : best) CHECK(same(plan));

    index_t low = all.front().bytes;
    index_t high = low;
    for (outcome const& o : all) {
      low = std::min(low, o.bytes);
      high = std::max(high, o.bytes);
    }
    CHECK(found.smallest().bytes == low);
    for (int i = 0; i < 4; ++i) {
      const index_t limit = low + graphs.upto(static_cast<int>(high - low));
      CAPTURE(limit);
      const search_plan plan = found.best({.most_bytes = limit});
      CHECK(plan.time == least(all, limit));
      CHECK(plan.bytes <= limit);
      CHECK(same(plan));
      const auto some = found.best_of(3, {.most_bytes = limit});
      std::vector<search_time> wanted;
      for (outcome const& o : all)
        if (o.bytes <= limit && wanted.size() < 3) wanted.push_back(o.time);
      REQUIRE(some.size() == wanted.size());
      for (std::size_t j = 0; j < some.size(); ++j) CHECK(some[j].time == wanted[j]);
    }
    CHECK_THROWS_AS(found.best({.most_bytes = low - 1}), error);

    if (g % 4 != 0) continue;
    const index_t limit = low + (high - low) / 2;
    for (const index_t most : {std::numeric_limits<index_t>::max(), limit}) {
      const search_plan plan = found.best({.most_bytes = most});
      const auto others = found.runners_up(plan, {.most_bytes = most});
      REQUIRE(others.size() == plan.cuts.size());
      for (std::size_t layer = 0; layer < others.size(); ++layer) {
        std::vector<outcome> rest;
        for (outcome const& o : all)
          if (o.chosen.cuts[layer] != plan.cuts[layer]) rest.push_back(o);
        CHECK((others[layer] ? others[layer]->time : -1) == least(rest, most));
      }
    }
  }
}

struct dp : axis<2> {};
struct tp : axis<4> {};
using world = mesh<dp, tp>;

struct any_cut {
  static constexpr bool allows(std::string_view) { return true; }
};
/// The words that layers have already.
struct no_other_cut {
  static constexpr bool allows(std::string_view) { return false; }
};
template <class Cuts>
using problem = search_problem<world, machine::h100_server, float, Cuts, 100>;

template <class Cuts, class Model, auto Extents>
search_plan plan_of() {
  return planner<2>(graph_of<problem<Cuts>, Model, Extents>()).best();
}
/// The price of a model as it is bound, with an input in a layout and a loss that takes the output as it is, made
/// whole.
template <class Model, auto Extents, auto Layout>
search_time price_of_bound() {
  using bound = bind<Model, world, flow<Extents, Layout>>;
  return picoseconds(price_layers<bound>(description_of<machine::h100_server>, problem<any_cut>::costs, {32, 4},
                                         dual(bound::output::layout), false, true)
                         .additive());
}
constexpr placements<2> rows_by_dp{{shard_placement(0), replicated_placement()}};
constexpr placements<2> rows_by_both{{shard_placement(0, 0), shard_placement(0, 1)}};

template <class... Layers>
using megatron = chain<linear<512, 2048, split_batch<dp>, split_output<tp>>, Layers...,
                       linear<2048, 512, split_batch<dp>, split_input<tp>>>;

}  // namespace

TEST_CASE("plans of random models are the best of all combinations, with and without limits") {
  compare<1>({{2}}, 1, 200);
  compare<2>({{2, 2}}, 2, 180);
  compare<2>({{2, 4}}, 3, 180);
  compare<3>({{2, 2, 2}}, 4, 20);
}

TEST_CASE("a model whose layers have their words is priced as it is bound") {
  constexpr shape<2> tokens{{4096, 512}};
  const search_time two = price_of_bound<megatron<>, tokens, rows_by_dp>();
  CHECK(std::abs(plan_of<no_other_cut, megatron<>, tokens>().time - two) <= 4);

  // Layouts that differ between the layers.
  using apart = chain<linear<512, 2048, split_batch<dp>, split_output<tp>>, linear<2048, 512, split_batch<dp, tp>>,
                      linear<512, 512, split_output<dp, tp>>, linear<512, 256, split_input<tp>, split_batch<dp>>>;
  const search_time four = price_of_bound<apart, tokens, rows_by_dp>();
  CHECK(std::abs(plan_of<no_other_cut, apart, tokens>().time - four) <= 8);

  using with_word = chain<linear<512, 512, split_batch<dp>, split_output<tp>>, whole_along<tp>, shard<0, dp, tp>,
                          linear<512, 512, split_batch<dp, tp>>>;
  CHECK(std::abs(plan_of<no_other_cut, with_word, tokens>().time - price_of_bound<with_word, tokens, rows_by_dp>()) <=
        6);

  constexpr shape<4> images{{64, 16, 32, 32}};
  using convolutions = chain<conv2d<16, 64, window<3, 1, 1>, split_batch<dp>, split_output<tp>>,
                             batch_norm2d<64, split_batch<dp>, split_channels<tp>>,
                             recompute<conv2d<64, 16, window<3, 1, 1>, split_batch<dp>, split_input<tp>>>>;
  CHECK(std::abs(plan_of<no_other_cut, convolutions, images>().time -
                 price_of_bound<convolutions, images, rows_by_dp>()) <= 8);
}

TEST_CASE("no plan is slower than the same model cut by hand") {
  constexpr shape<2> tokens{{4096, 512}};
  using block = residual<chain<layer_norm<512>, linear<512, 2048>, relu, linear<2048, 512>>>;
  using serial = chain<linear<512, 512>, block, block, linear<512, 64>>;
  const search_time best = plan_of<any_cut, serial, tokens>().time;
  CHECK(best <= price_of_bound<serial, tokens, rows_by_both>());
  CHECK(best <= price_of_bound<serial, tokens, rows_by_dp>());
  using by_hand = residual<chain<layer_norm<512>, megatron<relu>>>;
  CHECK(best <= price_of_bound<chain<linear<512, 512>, by_hand, by_hand, linear<512, 64>>, tokens, rows_by_dp>());

  using projected = residual<chain<linear<512, 2048>, relu, linear<2048, 512>>, linear<512, 512>>;
  CHECK(plan_of<any_cut, chain<linear<512, 512>, projected>, tokens>().time <=
        price_of_bound<chain<linear<512, 512>, projected>, tokens, rows_by_both>());
}

TEST_CASE("repeated blocks are one node, and layers are named as parameters are") {
  using block = residual<chain<linear<64, 64>, relu>, linear<64, 64>>;
  struct named : block {};
  const planner<2> three(graph_of<problem<any_cut>, chain<linear<64, 64>, block, named, shard<0, dp>, recompute<block>>,
                                  shape<2>{{256, 64}}>());
  std::vector<std::string> paths;
  for (auto const& layer : three.layers()) paths.push_back(layer.path);
  CHECK(paths == std::vector<std::string>{"0", "1.branch.0", "1.branch.1", "1.shortcut", "2.branch.0", "2.branch.1",
                                          "2.shortcut", "3.branch.0", "3.branch.1", "3.shortcut"});
  auto const& layers = three.layers();
  CHECK(layers[1].node == layers[4].node);
  CHECK(layers[3].node == layers[6].node);
  CHECK(layers[1].node != layers[7].node);
}

TEST_CASE("tied weights are cut alike") {
  struct words;
  using model = chain<embedding<1024, 64, tied<words>>, linear<64, 64>, linear<64, 1024, no_bias, tied<words>>>;
  const auto graph = graph_of<problem<any_cut>, model, shape<1>{{512}}>();
  const search_plan plan = planner<2>(graph).best();
  const auto tie_of_cut = [&](std::size_t node, int cut) {
    for (layer_way const& way : graph.nodes[node].ways)
      if (way.cut == cut) return way.tie;
    return edge_code{0};
  };
  auto const layers = planner<2>(graph).layers();
  const edge_code first = tie_of_cut(static_cast<std::size_t>(layers[0].node), plan.cuts[0]);
  CHECK(first != 0);
  CHECK(first == tie_of_cut(static_cast<std::size_t>(layers[2].node), plan.cuts[2]));
}

TEST_CASE("bytes are those of parameters, gradients, optimizer and what layers keep") {
  // One linear layer, nothing cut: 64 x 32 weights and 64 of bias, twice with gradients, three times with momentum; it
  // keeps its input.
  using one = search_problem<mesh<>, machine::h100_server, float, any_cut, 100>;
  const auto plan = [](index_t copies) {
    return planner<0>(graph_of<one, linear<32, 64>, shape<2>{{16, 32}}>(copies)).best();
  };
  const index_t parameters = (64 * 32 + 64) * 4;
  CHECK(plan(0).bytes == 2 * parameters + 16 * 32 * 4);
  CHECK(plan(2).bytes == 4 * parameters + 16 * 32 * 4);
}

TEST_CASE("a limit that nothing fits names the layer that keeps most and what would fit") {
  planner<2> large(graph_of<problem<any_cut>, chain<linear<64, 64>, relu, linear<64, 8192>>, shape<2>{{256, 64}}>());
  const search_plan smallest = large.smallest();
  CHECK(large.best({.most_bytes = smallest.bytes}).bytes == smallest.bytes);
  const std::string text = errors::error_of([&] { large.best({.most_bytes = smallest.bytes - 100}); });
  CHECK(text.find("100 fewer than any plan keeps; layer 2 (linear<64, 8192>)") != std::string::npos);
  CHECK(text.find("wanted at least " + std::to_string(smallest.bytes) + " bytes") != std::string::npos);
  CHECK_THROWS_AS(large.best_of(0), error);
}
