#pragma once

#include <tessera/plan/search/cut_bytes.hpp>
#include <tessera/plan/search/layer_ways.hpp>
#include <tessera/plan/search/node.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera {

/// What a node of a search's graph is: one layer, a layout word, layers in order, two sides that are added, or a part
/// that runs forward twice.
enum class search_kind : std::uint8_t { layer, word, chain, residual, recompute };

/// A value of a model, all devices together.
struct search_value {
  int rank = 0;
  double bytes = 0;
};

/// A part of a model as a planner sees it at run time. Parts that are equal (type, input, passes) are one node.
///
/// Codes of edges are named by their places in `all_edges`: of ways to take a value, ways to make one, and values
/// without gradients.
struct search_node {
  search_kind kind = search_kind::layer;
  search_value input{};
  search_value output{};
  int forwards = 1;          ///< how often its forward pass runs in a step
  bool wants_input = false;  ///< whether the gradient of its input is wanted
  bool learns = false;       ///< whether anything in it is trained
  int layers = 0;            ///< in it, each as often as it comes
  int sums = 0;              ///< of residuals in it, the same
  std::string_view name{};   ///< of a layer: its type
  /// Of a chain its parts; of a residual the branch and, unless that is the input itself, the shortcut; of a recompute
  /// one.
  std::vector<int> parts{};

  /// Of a layer: how it can be cut, what a device with the largest blocks keeps for it then, and how it can run.
  std::vector<detail::letter_cuts> cuts{};
  std::string letters{};                      ///< of what they cut
  std::vector<std::string_view> cut_words{};  ///< by letter: its split word
  std::vector<index_t> cut_bytes{};
  std::vector<layer_way> ways{};
  int tie = -1;              ///< which of the weights of the graph that several layers share is among its own
  bool memory_known = true;  ///< whether it tells what it keeps

  /// Of a word: what it makes of each value (places among values).
  std::vector<std::int16_t> targets{};

  /// Of a residual: the time of adding by the way in which the sum is taken, and of adding both parts of the input's
  /// gradient by the input's value. The sum may be taken in any way, or only with the layout of the shortcut.
  std::vector<search_time> sum_times{};
  std::vector<search_time> gradient_sum_times{};
  bool any_layout = false;

  /// Of a residual and a recompute: whether a layout word may stand before it, and after a residual.
  bool words = true;

  /// Of a recompute: the bytes of its input by its value.
  std::vector<index_t> kept_bytes{};

  /// Whether it is a word that leaves all values as they are.
  bool changes_nothing() const {
    if (kind != search_kind::word) return false;
    for (std::size_t v = 0; v < targets.size(); ++v)
      if (targets[v] != static_cast<std::int16_t>(v)) return false;
    return true;
  }
  /// The least that it keeps itself, its parts apart.
  index_t least_bytes() const {
    std::vector<index_t> const& bytes = kind == search_kind::recompute ? kept_bytes : cut_bytes;
    return bytes.empty() ? 0 : *std::min_element(bytes.begin(), bytes.end());
  }
};

/// A model, or any other part, for a planner. The root is the last node.
template <int Axes>
struct search_graph {
  mesh_sizes<Axes> mesh{};
  mesh_costs<Axes> costs{};
  std::vector<search_node> nodes{};
  int ties = 0;  ///< weights that several layers share
  /// Of the loss, by the way of taking the output (gradients are whole), where it costs anything; below 0 where it does
  /// not take it so.
  std::vector<search_time> loss_times{};

  search_node const& root() const { return nodes.back(); }
};

namespace detail {

/// Marks that tell types and extents apart.
template <class Node, auto Extents, bool WantsInput, int Forwards>
inline constexpr char part_mark = 0;

/// Numbers of the weights that layers share, in the order in which a graph meets them.
class tie_numbers {
 public:
  /// That of the shared weight among a layer's parameters, -1 where there is none.
  template <class... P>
  int of(parameter_list<P...> const*) {
    static_assert((0 + ... + (std::is_void_v<typename P::tie> ? 0 : 1)) <= 1,
                  "tessera: a planner takes layers of which at most one parameter is tied; tie the weights of several "
                  "layers instead");
    int number = -1;
    for (void const* const tie : {static_cast<void const*>(nullptr), tie_of<typename P::tie>...})
      if (tie != nullptr) number = numbers_.emplace(tie, count()).first->second;
    return number;
  }
  int count() const { return static_cast<int>(numbers_.size()); }

 private:
  std::unordered_map<void const*, int> numbers_{};
};

template <class Problem>
class graph_builder {
  using mesh = typename Problem::mesh;
  static constexpr int axes = mesh::axes;

 public:
  explicit graph_builder(index_t copies) : copies_(copies) {
    out_.mesh = mesh::value;
    out_.costs = Problem::costs;
  }
  search_graph<axes> take() { return std::move(out_); }

  /// The place of a node, made now unless there is one like it.
  template <class Node, auto Extents, bool WantsInput, int Forwards>
  int add() {
    void const* const key = &part_mark<Node, Extents, WantsInput, Forwards>;
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    constexpr auto output = after_node<Node, Extents>::extents;
    search_node node;
    node.input = {Extents.rank, Problem::template bytes_of<Extents>()};
    node.output = {output.rank, Problem::template bytes_of<output>()};
    node.forwards = Forwards;
    node.wants_input = WantsInput;
    node.learns = learning<Node>;
    fill<Node, Extents, WantsInput, Forwards>(node, static_cast<Node const*>(nullptr));
    for (const int part : node.parts) {
      node.layers += out_.nodes[static_cast<std::size_t>(part)].layers;
      node.sums += out_.nodes[static_cast<std::size_t>(part)].sums;
    }
    const int place = static_cast<int>(out_.nodes.size());
    out_.nodes.push_back(std::move(node));
    known_.emplace(key, place);
    return place;
  }

 private:
  template <class Node, auto Extents, bool WantsInput, int Forwards, class... Layers>
  void fill(search_node& node, chain<Layers...> const*) {
    node.kind = search_kind::chain;
    add_layers<chain<Layers...>, 0, Extents, WantsInput, Forwards>(node);
  }
  template <class Chain, int I, auto Extents, bool WantsInput, int Forwards>
  void add_layers(search_node& node) {
    if constexpr (I < Chain::count) {
      using layer = bare<type_at<I, typename Chain::layers>>;
      const int part = add<layer, Extents, WantsInput, Forwards>();
      if (!out_.nodes[static_cast<std::size_t>(part)].changes_nothing()) node.parts.push_back(part);
      add_layers<Chain, I + 1, after_node<layer, Extents>::extents, WantsInput || learning<layer>, Forwards>(node);
    }
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards, class Branch, class Shortcut>
  void fill(search_node& node, residual<Branch, Shortcut> const*) {
    constexpr bool plain = std::is_same_v<Shortcut, identity>;
    constexpr auto output = after_node<Node, Extents>::extents;
    node.kind = search_kind::residual;
    node.sums = 1;
    node.any_layout = sums_in_any_layout<Shortcut>;
    for (const edge_code code : all_edges(mesh::value, output.rank, true, false))
      node.sum_times.push_back(Forwards * time_of_sum<Problem>(code, output));
    if (WantsInput)
      for (const edge_code code : all_edges(mesh::value, Extents.rank, false, true))
        node.gradient_sum_times.push_back(time_of_sum<Problem>(code, Extents));
    node.parts.push_back(add<bare<Branch>, Extents, WantsInput, Forwards>());
    if constexpr (!plain) node.parts.push_back(add<bare<Shortcut>, Extents, WantsInput, Forwards>());
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards, class Layer>
  void fill(search_node& node, recompute<Layer> const*) {
    node.kind = search_kind::recompute;
    constexpr bool again = WantsInput || learning<bare<Layer>>;
    for (const edge_code code : all_edges(mesh::value, Extents.rank, false, true))
      node.kept_bytes.push_back(again ? bytes_of_input<Problem, Extents>(code) : 0);
    node.parts.push_back(add<bare<Layer>, Extents, WantsInput, Forwards + int{again}>());
  }

  template <class Node, auto Extents, bool WantsInput, int Forwards>
  void fill(search_node& node, void const*) {
    if constexpr (is_word<Node>) {
      node.kind = search_kind::word;
      constexpr auto& values = values_to_make<mesh::value, Extents.rank>;
      for (const edge_code code : values)
        node.targets.push_back(static_cast<std::int16_t>(values.place(
            edge_of(target_of_word<mesh>(layout_of_edge<axes>(code), static_cast<Node const*>(nullptr))))));
    } else {
      constexpr auto* parameters = static_cast<typename Node::parameters const*>(nullptr);
      node.kind = search_kind::layer;
      node.name = short_type_text<Node>();
      node.layers = 1;
      node.memory_known = layer_of_known_memory<Node, Extents, mesh>;
      node.tie = ties_.of(parameters);
      out_.ties = ties_.count();
      node.cuts = ways_to_cut<Problem, Node, Extents>();
      constexpr index_rules rules = Node::template rules<Extents>();
      for (int i = 0; i < rules.count; ++i) {
        node.letters += rules.cuts[i].letter;
        node.cut_words.push_back(rules.cuts[i].word);
      }
      for (std::size_t i = 0; i < node.cuts.size(); ++i) {
        each_way<Problem, Node, Extents, WantsInput, Forwards>(node.cuts[i], static_cast<int>(i),
                                                               [&](layer_way const& way) { node.ways.push_back(way); });
        const auto resolved = lay_out<axes>(rules, node.cuts[i]);
        // What a recomputed part makes again lives only while its own backward runs.
        const bool keeps = (WantsInput || learning<Node>)&&Forwards == 1;
        node.cut_bytes.push_back(bytes_of_cut<Problem, Node, Extents>(resolved, keeps, copies_, parameters));
      }
    }
  }

  search_graph<axes> out_{};
  index_t copies_;
  std::unordered_map<void const*, int> known_{};
  tie_numbers ties_{};
};

}  // namespace detail

/// The graph of a model with an input of `Extents`, of which no gradient is wanted. `copies` is how many values an
/// optimizer keeps for each parameter (0 for plain gradient descent, 1 with momentum, 2 for Adam).
///
/// Bytes are those of parameters, states, gradients, optimizer, and of all that layers keep from forward to backward,
/// as if no two of them kept the same block: an upper bound. A recomputed part keeps its input only. What a pass has at
/// one time beside these (scratch, gradients of activations, what a recomputed part makes again) is not among them.
template <class Problem, class Model, auto Extents>
search_graph<Problem::mesh::axes> graph_of(index_t copies = 0) {
  detail::graph_builder<Problem> builder(copies);
  builder.template add<detail::bare<Model>, Extents, false, 1>();
  return builder.take();
}

}  // namespace tessera
