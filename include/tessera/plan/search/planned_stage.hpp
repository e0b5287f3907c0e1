#pragma once

#include <tessera/plan/pass_order.hpp>
#include <tessera/plan/priced_layers.hpp>
#include <tessera/plan/search/device_terms.hpp>
#include <tessera/plan/search/search_plan.hpp>

#include <functional>
#include <string>

namespace tessera::detail {

/// The layers of a model, or of a stage of it, that a planner has cut, as the price of a step takes them (see
/// `price_layers`, which has them of types), and what they keep.
template <int Axes>
struct planned_stage {
  priced_layers<Axes> layers{};
  std::vector<parameter_info<Axes>> parameters{};  ///< and states, all with their layouts
  std::vector<layer_parameters> forward{};         ///< the order in which passes come to those that are trained
  std::vector<layer_parameters> backward{};
  index_t kept = 0;            ///< bytes for backward, of one pass
  index_t again = 0;           ///< the most that one block makes again
  index_t scratch = 0;         ///< the most that one layer has in a pass, its input, output and gradients included
  placements<Axes> output{};   ///< in which the value leaves
  placements<Axes> leaving{};  ///< in which the gradient of the input does
  std::vector<std::string> paths{};         ///< by row
  std::vector<std::pair<int, int>> cuts{};  ///< by row: the node of the priced graph and which of its cuts; or -1
};

/// Follows a plan through its graph: values forward, gradients back.
template <int Axes>
class plan_walk {
  using layout_value = placements<Axes>;

 public:
  /// `graph` is of the nodes `sources` of `from`; `path` names its root.
  plan_walk(device_graph<Axes> const& from, search_graph<Axes> const& graph, std::vector<int> const& sources,
            search_plan const& plan, run_links<Axes>& links)
      : from_(from), graph_(graph), sources_(sources), plan_(plan), links_(links) {}

  /// The stage, whose output is brought to the layout `wanted`, whose output's gradient comes as `arriving`, and whose
  /// first part is number `first` of the outermost chain.
  planned_stage<Axes> stage(layout_value const& wanted, layout_value const& arriving, int first) {
    search_node const& root = graph_.root();
    const int place = static_cast<int>(graph_.nodes.size()) - 1;
    passage whole = root.kind == search_kind::chain ? pass_chain(root, layout_of_edge<Axes>(plan_.input), "", first)
                                                    : pass(place, layout_of_edge<Axes>(plan_.input), "");
    const int output = add_row("output", "output", whole.out, wanted);
    row(output).forward = row(output).forward_messages = route(root.output, whole.out, wanted);
    out_.output = wanted;
    const layout_value handed = gradient_for(whole.out, arriving);
    if (root.learns || root.wants_input)
      if (const double seconds = route(root.output, arriving, handed); seconds > 0) back(output, 0, seconds);
    out_.leaving = whole.back(handed);
    return std::move(out_);
  }

 private:
  struct passage {
    layout_value out{};
    std::function<layout_value(layout_value const&)> back{};
  };

  search_node const& at(int i) const { return graph_.nodes[static_cast<std::size_t>(i)]; }
  device_node<Axes> const& facts(int i) const {
    return from_.facts[static_cast<std::size_t>(sources_[static_cast<std::size_t>(i)])];
  }
  priced_layer<Axes>& row(int i) { return out_.layers.rows[static_cast<std::size_t>(i)]; }

  double route(search_value const& value, layout_value const& from, layout_value const& to) {
    if (from == to) return 0;
    auto const& edges = links_.edges(value.rank);
    return seconds_of(links_.route(value.rank, edges.value(edge_of(from)), edges.value(edge_of(to))), value.bytes);
  }
  double seconds_of_sum(layout_value const& layout, shape<max_rank> const& extents) const {
    const double bytes = 3 * largest_size(graph_.mesh, layout, extents, 1) * static_cast<double>(from_.element_bytes);
    return from_.machine.seconds(0, bytes, from_.element_bytes, kernel_kind::map);
  }
  index_t block(layout_value const& layout, shape<max_rank> const& extents) const {
    return block_bytes(largest_block(graph_.mesh, layout, extents, 1).size(), from_.element_bytes);
  }

  int add_row(std::string const& path, std::string_view layer, layout_value const& in, layout_value const& out) {
    priced_layer<Axes> r;
    r.layer = layer;
    r.input = in;
    r.output = out;
    r.first_parameter = next_parameter_;
    out_.layers.rows.push_back(r);
    out_.paths.push_back(path.empty() || path.back() != '.' ? path : path.substr(0, path.size() - 1));
    out_.cuts.emplace_back(-1, -1);
    return static_cast<int>(out_.layers.rows.size()) - 1;
  }
  void back(int i, double kernels, double messages, bool gradients = false) {
    row(i).backward += kernels + messages;
    row(i).backward_messages += messages;
    out_.layers.backward.push_back({i, kernels + messages, messages, gradients});
  }

  passage pass(int i, layout_value const& in, std::string const& path) {
    search_node const& n = at(i);
    switch (n.kind) {
      case search_kind::layer: return pass_layer(i, in, path);
      case search_kind::word: {
        auto const& edges = links_.edges(n.input.rank);
        const auto target = n.targets[static_cast<std::size_t>(edges.value(edge_of(in)))];
        return change(n.input, n.wants_input, in, layout_of_edge<Axes>(edges.values[static_cast<std::size_t>(target)]),
                      path);
      }
      case search_kind::recompute: return pass_again(i, in, path);
      case search_kind::residual: return pass_residual(i, in, path);
      default: return pass_chain(n, in, path, 0);
    }
  }

  passage pass_chain(search_node const& n, layout_value in, std::string const& path, int first) {
    std::vector<passage> all;
    int place = first;
    for (const int part : n.parts) {
      const bool word = at(part).kind == search_kind::word;
      all.push_back(pass(part, in, word ? path : path + std::to_string(place++) + '.'));
      in = all.back().out;
    }
    return {in, [all](layout_value gradient) {
              for (std::size_t p = all.size(); p-- > 0;) gradient = all[p].back(gradient);
              return gradient;
            }};
  }

  /// A change of a value to another layout; `wanted`: whether its gradient is.
  passage change(search_value const& value, bool wanted, layout_value const& from, layout_value const& to,
                 std::string const& path) {
    if (from == to) return {to, [](layout_value const& gradient) { return gradient; }};
    const int i = add_row(path, "layout", from, to);
    row(i).forward = row(i).forward_messages = route(value, from, to);
    return {to, [this, i, value, wanted, from](layout_value const& gradient) {
              if (!wanted) return dual(from);
              const layout_value handed = gradient_for(from, gradient);
              back(i, 0, route(value, gradient, handed));
              return handed;
            }};
  }
  passage pass_layer(int i, layout_value const& in, std::string const& path) {
    search_node const& n = at(i);
    device_node<Axes> const& known = facts(i);
    const int cut = plan_.cuts[next_layer_++];
    cut_price<Axes> const& price = known.cuts[static_cast<std::size_t>(cut)];
    auto const& resolved = price.resolved;
    const int r = add_row(path, n.name, resolved.operand[0], resolved.output);
    out_.cuts.back() = {sources_[static_cast<std::size_t>(i)], cut};
    row(r).forward_messages = route(n.input, in, resolved.operand[0]) + price.forward_messages;
    row(r).forward = price.forward + row(r).forward_messages;
    int count = 0;
    for (std::size_t p = 0; p < known.parameters.size(); ++p) {
      parameter_info<Axes> info = known.parameters[p];
      info.layout = resolved.operand[p + 1];
      info.gradient = resolved.gradient[p + 1];
      count += info.trainable;
      out_.parameters.push_back(info);
    }
    row(r).parameters = count;
    next_parameter_ += count;
    if (count > 0) out_.forward.push_back({row(r).first_parameter, count});
    const bool runs = n.wants_input || n.learns;
    if (n.forwards == 1)
      out_.kept += price.kept;
    else
      again_ += price.kept;
    out_.scratch = std::max(out_.scratch, price.scratch + 2 * block(resolved.operand[0], known.input) +
                                              2 * block(resolved.output, known.output));
    return {resolved.output, [this, &n, &known, &price, in, r, runs](layout_value const& arriving) {
              if (!runs) return dual(in);
              layout_value needed = dual(price.resolved.output);
              layout_value produced = price.resolved.gradient[0];
              for (int a = 0; a < Axes; ++a)
                if (known.passes_partial && price.resolved.output[a].is_replicated() && arriving[a].is_partial())
                  needed[a] = produced[a] = arriving[a];
              const layout_value handed = n.wants_input ? gradient_for(in, produced) : dual(in);
              double messages = route(n.output, arriving, needed) + price.backward_messages;
              if (n.wants_input) messages += route(n.input, produced, handed);
              back(r, price.backward, messages, true);
              if (row(r).parameters > 0) out_.backward.push_back({row(r).first_parameter, row(r).parameters});
              return handed;
            }};
  }

  passage pass_residual(int i, layout_value const& made, std::string const& path) {
    search_node const& n = at(i);
    // Sums are counted as they end.
    const std::size_t number = next_sum_ + static_cast<std::size_t>(n.sums) - 1;
    const layout_value in = layout_of_edge<Axes>(plan_.inputs[number]);
    const passage before = change(n.input, n.wants_input, made, in, path);
    const passage branch = pass(n.parts[0], in, path + "branch.");
    const bool plain = n.parts.size() == 1;
    const passage shortcut = plain ? passage{in, {}} : pass(n.parts[1], in, path + "shortcut.");
    const layout_value sum = layout_of_edge<Axes>(plan_.sums[number]);
    next_sum_ = number + 1;
    const int r = add_row(path, "sum", sum, sum);
    row(r).forward_messages = route(n.output, branch.out, sum) + route(n.output, shortcut.out, sum);
    row(r).forward = seconds_of_sum(sum, facts(i).output) + row(r).forward_messages;
    const bool to_branch = n.wants_input || at(n.parts[0]).learns;
    const bool to_shortcut = n.wants_input || (!plain && at(n.parts[1]).learns);
    const passage after =
        change(n.output, n.wants_input || n.learns, sum, layout_of_edge<Axes>(plan_.outputs[number]), path);
    return {
        after.out, [=, this, &n](layout_value const& gradient) {
          const layout_value arriving = after.back(gradient);
          layout_value one = gradient_for(branch.out, arriving);
          layout_value two = gradient_for(shortcut.out, arriving);
          back(r, 0,
               (to_branch ? route(n.output, arriving, one) : 0) + (to_shortcut ? route(n.output, arriving, two) : 0));
          if (!plain) two = shortcut.back(two);
          one = branch.back(one);
          if (!n.wants_input) return before.back(dual(in));
          layout_value common = one;
          for (int a = 0; a < Axes; ++a)
            if (!(one[a] == two[a])) common[a] = replicated_placement();
          back(r, seconds_of_sum(in, facts(i).input), route(n.input, one, common) + route(n.input, two, common));
          return before.back(common);
        }};
  }

  /// A part whose forward runs once more before its backward.
  passage pass_again(int i, layout_value const& made, std::string const& path) {
    search_node const& n = at(i);
    const layout_value in = layout_of_edge<Axes>(plan_.recomputed[next_layer_]);
    const passage before = change(n.input, n.wants_input, made, in, path);
    const bool runs = n.wants_input || n.learns;
    auto const& edges = links_.edges(n.input.rank);
    if (runs) out_.kept += n.kept_bytes.empty() ? 0 : block_of_input(n, edges.value(edge_of(in)));
    again_ = 0;
    const int first = static_cast<int>(out_.layers.rows.size());
    const std::size_t first_order = out_.forward.size();
    const passage inner = pass(n.parts[0], in, path);
    out_.again = std::max(out_.again, again_);
    const int end = static_cast<int>(out_.layers.rows.size());
    const std::vector<layer_parameters> order(out_.forward.begin() + static_cast<std::ptrdiff_t>(first_order),
                                              out_.forward.end());
    return {inner.out, [=, this](layout_value const& gradient) {
              if (!runs) return dual(made);
              for (int r = first; r < end; ++r)
                back(r, row(r).forward - row(r).forward_messages, row(r).forward_messages);
              out_.backward.insert(out_.backward.end(), order.begin(), order.end());
              return before.back(inner.back(gradient));
            }};
  }
  index_t block_of_input(search_node const& n, int value) const {
    return n.kept_bytes[static_cast<std::size_t>(value)] / live_;
  }

 public:
  /// How many passes the bytes of the graph are of.
  plan_walk& of_passes(int live) {
    live_ = live;
    return *this;
  }

 private:
  device_graph<Axes> const& from_;
  search_graph<Axes> const& graph_;
  std::vector<int> const& sources_;
  search_plan const& plan_;
  run_links<Axes>& links_;
  planned_stage<Axes> out_{};
  std::size_t next_layer_ = 0;
  std::size_t next_sum_ = 0;
  int next_parameter_ = 0;
  index_t again_ = 0;
  int live_ = 1;
};

}  // namespace tessera::detail
