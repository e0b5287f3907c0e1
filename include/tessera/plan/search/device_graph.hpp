#pragma once

#include <tessera/layer/kept.hpp>
#include <tessera/plan/search/graph.hpp>
#include <tessera/plan/search/run_links.hpp>
#include <tessera/plan/search/run_mesh.hpp>

#include <memory>
#include <unordered_map>

namespace tessera::detail {

/// A trainable parameter, or a state, of a layer that is cut in some way.
struct cut_parameter {
  index_t elements = 0;  ///< on the device with the largest blocks
  axis_set axes = 0;     ///< over which its gradient is a sum
};

/// A layer in one cut: what a pass of one part of the batch costs, kinds apart, and what it keeps.
template <int Axes>
struct cut_price {
  resolved_layer<Axes> resolved{};
  double forward = 0;           ///< seconds of kernels
  double backward = 0;          ///< where it runs
  double forward_messages = 0;  ///< and of collectives that it makes itself
  double backward_messages = 0;
  index_t kept = 0;     ///< bytes that it keeps for backward, were nothing shared with neighbours
  index_t scratch = 0;  ///< and that it has beside input and output in a pass
  int kernels = 0;      ///< of both passes
  std::vector<cut_parameter> parameters{};
};

/// What is known of a part of a model beside its `search_node`.
template <int Axes>
struct device_node {
  shape<max_rank> input{};  ///< extents, of one part of the batch
  shape<max_rank> output{};
  // Of a layer:
  std::vector<parameter_info<Axes>> parameters{};  ///< without layouts
  std::vector<cut_price<Axes>> cuts{};
  std::vector<double> whole_gradients{};  ///< by way: seconds of making a partial gradient of its output whole
  std::vector<std::string_view> words{};  ///< by letter of its rules
  std::string letters{};
  bool passes_partial = false;
};

/// A model on a mesh whose sizes are known at run time, priced: `graph` says how its parts hang together, ways without
/// times.
template <int Axes>
struct device_graph {
  mesh_sizes<Axes> mesh{};
  mesh_costs<Axes> costs{};
  machine_description machine{};
  index_t element_bytes = 4;
  std::vector<search_node> nodes{};
  std::vector<device_node<Axes>> facts{};
  std::vector<int> entries{};  ///< by part of the root: its place in the outermost chain
  int ties = 0;
};

/// How a graph is priced.
template <int Axes>
struct device_setting {
  mesh_sizes<Axes> mesh{};
  machine_description machine{};
  index_t element_bytes = 4;
  /// The extents of the model have so many times the rows of one part of the batch: an axis beside those of the mesh,
  /// which cuts the batch first, in time and not among devices.
  int parts = 1;
  index_t rows = 0;  ///< of one part
};

/// Layers of any model, without words.
template <int Axes>
struct serial_problem {
  using mesh = run_mesh<Axes>;
  static constexpr bool allows(std::string_view) { return true; }
};

template <int Axes>
class device_graph_builder {
  static constexpr int priced_axes = Axes + 1;
  using priced_mesh = run_mesh<priced_axes>;

 public:
  explicit device_graph_builder(device_setting<Axes> const& setting) : parts_(setting.parts), rows_(setting.rows) {
    out_.mesh = setting.mesh;
    out_.machine = setting.machine;
    out_.costs = costs_on(setting.mesh, setting.machine);
    out_.element_bytes = setting.element_bytes;
    for (int a = 0; a < Axes; ++a) sizes_.along[a] = setting.mesh[a];
    sizes_.along[Axes] = setting.parts;
    // Parts follow one another: nothing is sent among them.
    costs_.packing = out_.costs.packing;
    for (int set = 0; set < costs_.sets; ++set) {
      const int here = set & (out_.costs.sets - 1);
      costs_.gather[set] = out_.costs.gather[here];
      costs_.exchange[set] = out_.costs.exchange[here];
      costs_.bucket[set] = out_.costs.bucket[here];
      costs_.message[set] = out_.costs.message[here];
    }
  }

  template <class Model, auto Extents>
  device_graph<Axes> build() {
    const typename priced_mesh::scope scope(sizes_);
    const typename run_mesh<Axes>::scope plain(out_.mesh);
    add<bare<Model>, Extents, false, 1>();
    if (out_.nodes.back().kind != search_kind::chain) out_.entries.clear();
    return std::move(out_);
  }

 private:
  template <class Node, auto Extents, bool WantsInput, int Forwards>
  static constexpr char mark = 0;

  /// The extents of a tensor of one part.
  template <int Rank>
  shape<max_rank> of_part(shape<Rank> const& extents) const {
    shape<max_rank> out;
    for (int d = 0; d < max_rank; ++d) out[d] = d < Rank ? extents[d] : 1;
    out[0] = (out[0] + parts_ - 1) / parts_;
    return out;
  }
  search_value value_of(int rank, shape<max_rank> const& extents) const {
    return {rank, static_cast<double>(extents.size()) * static_cast<double>(out_.element_bytes)};
  }
  search_time time_of_sum(edge_code code, shape<max_rank> const& extents) const {
    const double bytes =
        3 * largest_size(out_.mesh, layout_of_edge<Axes>(code), extents, 1) * static_cast<double>(out_.element_bytes);
    return picoseconds(out_.machine.seconds(0, bytes, out_.element_bytes, kernel_kind::map));
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards>
  int add() {
    void const* const key = &mark<Node, Extents, WantsInput, Forwards>;
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    constexpr auto output = after_node<Node, Extents>::extents;
    search_node node;
    device_node<Axes> facts;
    facts.input = of_part(Extents);
    facts.output = of_part(output);
    node.input = value_of(Extents.rank, facts.input);
    node.output = value_of(output.rank, facts.output);
    node.forwards = Forwards;
    node.wants_input = WantsInput;
    node.learns = learning<Node>;
    fill<Node, Extents, WantsInput, Forwards>(node, facts, static_cast<Node const*>(nullptr));
    for (const int part : node.parts) {
      node.layers += out_.nodes[static_cast<std::size_t>(part)].layers;
      node.sums += out_.nodes[static_cast<std::size_t>(part)].sums;
    }
    const int place = static_cast<int>(out_.nodes.size());
    out_.nodes.push_back(std::move(node));
    out_.facts.push_back(std::move(facts));
    known_.emplace(key, place);
    return place;
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards, class... Layers>
  void fill(search_node& node, device_node<Axes>&, chain<Layers...> const*) {
    node.kind = search_kind::chain;
    std::vector<int> entries;
    add_layers<chain<Layers...>, 0, Extents, WantsInput, Forwards>(node, entries);
    out_.entries = std::move(entries);  // the root is filled last
  }
  template <class Chain, int I, auto Extents, bool WantsInput, int Forwards>
  void add_layers(search_node& node, std::vector<int>& entries) {
    if constexpr (I < Chain::count) {
      using layer = bare<type_at<I, typename Chain::layers>>;
      const int part = add<layer, Extents, WantsInput, Forwards>();
      if (!out_.nodes[static_cast<std::size_t>(part)].changes_nothing()) {
        node.parts.push_back(part);
        entries.push_back(I);
      }
      add_layers<Chain, I + 1, after_node<layer, Extents>::extents, WantsInput || learning<layer>, Forwards>(node,
                                                                                                             entries);
    }
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards, class Branch, class Shortcut>
  void fill(search_node& node, device_node<Axes>& facts, residual<Branch, Shortcut> const*) {
    node.kind = search_kind::residual;
    node.sums = 1;
    node.any_layout = sums_in_any_layout<Shortcut>;
    node.words = true;
    for (const edge_code code : lists_of(node.output.rank).edges.taken)
      node.sum_times.push_back(Forwards * time_of_sum(code, facts.output));
    if (WantsInput)
      for (const edge_code code : lists_of(node.input.rank).edges.values)
        node.gradient_sum_times.push_back(time_of_sum(code, facts.input));
    node.parts.push_back(add<bare<Branch>, Extents, WantsInput, Forwards>());
    if constexpr (!std::is_same_v<Shortcut, identity>)
      node.parts.push_back(add<bare<Shortcut>, Extents, WantsInput, Forwards>());
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards, class Layer>
  void fill(search_node& node, device_node<Axes>&, recompute<Layer> const*) {
    node.kind = search_kind::recompute;
    constexpr bool again = WantsInput || learning<bare<Layer>>;
    node.parts.push_back(add<bare<Layer>, Extents, WantsInput, Forwards + int{again}>());
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards>
  void fill(search_node& node, device_node<Axes>& facts, void const*) {
    if constexpr (is_word<Node>) {
      node.kind = search_kind::word;
      auto const& edges = lists_of(Extents.rank).edges;
      for (const edge_code code : edges.values)
        node.targets.push_back(edges.value(
            edge_of(target_of_word<run_mesh<Axes>>(layout_of_edge<Axes>(code), static_cast<Node const*>(nullptr)))));
    } else {
      static_assert(std::is_same_v<typename Node::words, word_list<>>,
                    "tessera: a plan for a number of devices is made of a serial model, and a layer of this one has "
                    "split words; leave them out, or name a mesh and use auto_parallel");
      node.kind = search_kind::layer;
      node.name = short_type_text<Node>();
      node.layers = 1;
      node.memory_known = layer_of_known_memory<Node, Extents, priced_mesh>;
      fill_layer<Node, Extents, WantsInput>(node, facts, static_cast<typename Node::parameters const*>(nullptr));
    }
  }

  template <class Layer, auto Extents, bool WantsInput, class... P>
  void fill_layer(search_node& node, device_node<Axes>& facts, parameter_list<P...> const* parameters) {
    constexpr index_rules written = Layer::template rules<Extents>();
    constexpr auto output = Layer::template output<Extents>();
    cut_rules rules = cut_rules_of<serial_problem<Axes>, Layer, Extents>();
    const int batch = rules.find(written.operand(0)[0]);
    // Counted things of the batch are those of one part.
    if (batch >= 0)
      if (index_t& m = rules.letters[batch].multiple; m > 1 && (m - 1) % Extents[0] == 0)
        m = (m - 1) / Extents[0] * rows_ + 1;
    for (int i = 0; i < written.count; ++i) {
      facts.letters += written.cuts[i].letter;
      facts.words.push_back(written.cuts[i].word);
    }
    facts.passes_partial = rules.passes;
    (facts.parameters.push_back(describe_parameter(P::name, P::extents, placements<Axes>{}, placements<Axes>{},
                                                   P::trainable, tie_of<typename P::tie>)),
     ...);
    node.tie = ties_.of(parameters);
    out_.ties = ties_.count();
    node.cuts = ways_to_cut(out_.mesh, rules);
    // Dimensions are not cut into more parts than they have elements.
    std::vector<index_t> extents;
    for (int i = 0; i < written.count; ++i) {
      extents.push_back(extent_of_letter<Layer, Extents>(written, written.cuts[i].letter, parameters));
      if (i == batch) extents.back() = (extents.back() + parts_ - 1) / parts_;
    }
    std::erase_if(node.cuts, [&](letter_cuts const& cuts) {
      for (int i = 0; i < written.count; ++i) {
        index_t parts = 1;
        for (int a = 0; a < Axes; ++a)
          if (cuts.letter[a] == written.cuts[i].letter) parts *= out_.mesh[a];
        if (parts > extents[static_cast<std::size_t>(i)]) return true;
      }
      return false;
    });
    struct {
      device_graph_builder& of;
      int in;
      int out;
      int taken(edge_code code) const { return of.lists_of(in).taken.at(code); }
      int made(edge_code code) const { return of.lists_of(out).made.at(code); }
      link_cost whole_gradient(edge_code code) const { return of.whole_gradient(out, code); }
    } const lists{*this, Extents.rank, output.rank};
    for (std::size_t i = 0; i < node.cuts.size(); ++i) {
      facts.cuts.push_back(price<Layer, Extents, WantsInput>(rules, batch, node.cuts[i], parameters));
      auto const& resolved = facts.cuts.back().resolved;
      const edge_code tie = tie_of_layer(resolved, parameters);
      each_variant(out_.mesh, resolved, rules.passes, static_cast<int>(i), lists, [&](cut_variant const& variant) {
        if (!variant.whole && !WantsInput && !any_trainable(parameters)) return;
        layer_way way;
        way.cut = variant.cut;
        way.taken = WantsInput ? variant.taken : variant.taken_unwanted;
        way.made = variant.made;
        way.tie = tie;
        node.ways.push_back(way);
        facts.whole_gradients.push_back(seconds_of(variant.whole_gradient, node.output.bytes));
      });
    }
  }

  template <class Layer, auto Extents, bool WantsInput, class... P>
  cut_price<Axes> price(cut_rules const& rules, int batch, letter_cuts cuts, parameter_list<P...> const*) {
    constexpr bool learns = any_trainable(static_cast<parameter_list<P...> const*>(nullptr));
    cut_price<Axes> out;
    out.resolved = rules.template lay_out<Axes>(cuts);
    cuts.letter[Axes] = resolved_layer<Axes>::no_letter;
    if (batch >= 0) {
      for (int a = 0; a < Axes; ++a) cuts.order[a] += cuts.letter[a] == rules.letters[batch].letter;
      cuts.letter[Axes] = rules.letters[batch].letter;
      cuts.order[Axes] = 0;
    }
    const auto resolved = rules.template lay_out<priced_axes>(cuts);
    each_kernel<Layer, Extents, priced_mesh>(
        resolved, 1, [&](layer_pass pass, double flops, double elements, kernel_kind kind) {
          if (pass == layer_pass::input && !WantsInput) return;
          if (pass != layer_pass::forward && !WantsInput && !learns) return;
          ++out.kernels;
          (pass == layer_pass::forward ? out.forward : out.backward) +=
              out_.machine.seconds(flops, elements * static_cast<double>(out_.element_bytes), out_.element_bytes, kind);
        });
    if constexpr (makes_calls<Layer, Extents, priced_mesh>) {
      const auto seconds_in = [&](phase when) {
        return seconds_of_calls<priced_mesh>(costs_, own_calls<Layer, Extents, priced_mesh>(when, resolved, WantsInput),
                                             out_.element_bytes, 1);
      };
      out.forward_messages = seconds_in(phase::forward);
      if (WantsInput || learns) out.backward_messages = seconds_in(phase::backward);
    }
    int operand = 0;
    ((++operand, out.parameters.push_back(
                     {largest_block(out_.mesh, out.resolved.operand[operand], P::extents, 1).size(),
                      static_cast<axis_set>(
                          P::trainable ? out_.mesh.cutting(out.resolved.gradient[operand].partial_axes()) : 0)})),
     ...);
    if constexpr (layer_of_known_memory<Layer, Extents, priced_mesh>) {
      if (WantsInput || learns) out.kept = bytes_kept_by<Layer, Extents, priced_mesh>(resolved, {}, out_.element_bytes);
      out.scratch = kept_by<Layer, Extents, priced_mesh>(resolved, {}, out_.element_bytes).scratch;
    }
    return out;
  }

  struct rank_lists {
    rank_edges<Axes> edges;
    std::unordered_map<edge_code, int> taken{};
    std::unordered_map<edge_code, int> made{};
    std::unordered_map<edge_code, link_cost> whole_gradients{};
    rank_lists(mesh_sizes<Axes> const& mesh, int rank) : edges(mesh, rank) {
      for (const edge_code code : edges.taken) taken.emplace(code, static_cast<int>(taken.size()));
      for (const edge_code code : edges.made) made.emplace(code, static_cast<int>(made.size()));
    }
  };
  rank_lists& lists_of(int rank) {
    auto& lists = lists_[rank];
    if (!lists) lists = std::make_unique<rank_lists>(out_.mesh, rank);
    return *lists;
  }
  link_cost whole_gradient(int rank, edge_code made) {
    auto& known = lists_of(rank).whole_gradients;
    const auto found = known.find(made);
    if (found != known.end()) return found->second;
    return known.emplace(made, cost_of_partial_gradient(out_.mesh, out_.costs, rank, made)).first->second;
  }

  device_graph<Axes> out_{};
  int parts_;
  index_t rows_;
  mesh_sizes<priced_axes> sizes_{};
  mesh_costs<priced_axes> costs_{};
  std::unordered_map<void const*, int> known_{};
  tie_numbers ties_{};
  std::unordered_map<int, std::unique_ptr<rank_lists>> lists_{};
};

}  // namespace tessera::detail
