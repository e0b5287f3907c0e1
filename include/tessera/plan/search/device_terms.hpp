#pragma once

#include <tessera/plan/search/device_graph.hpp>

#include <algorithm>
#include <map>

namespace tessera::detail {

/// What a plan has beside its splits, as far as it changes what a layer costs and keeps.
struct device_terms {
  int level = 0;              ///< of `optimizer_parallel` along all axes
  bool recompute = false;     ///< of each block
  int parts = 1;              ///< of the batch: micro-batches
  int live = 1;               ///< of these, how many passes are under way at one time
  index_t remembered = 0;     ///< by the optimizer, values an element
  double gradient_share = 1;  ///< of the reductions' time that counts: what backward does not hide
};

/// A part of a model as a planner takes it, under some terms: the entries of the outermost chain from one to another.
/// Times are those of one part of the batch.
template <int Axes>
class device_part {
 public:
  device_part(device_graph<Axes> const& from, device_terms const& terms, int begin, int end)
      : from_(from), terms_(terms) {
    out_.mesh = from.mesh;
    out_.costs = from.costs;
    out_.ties = from.ties;
    search_node const& all = from.nodes.back();
    if (all.kind != search_kind::chain) {
      copy_outside_blocks(static_cast<int>(from.nodes.size()) - 1);
      return;
    }
    search_node root;
    root.kind = search_kind::chain;
    search_node const& first = at(all.parts[static_cast<std::size_t>(begin)]);
    root.input = first.input;
    root.wants_input = first.wants_input;
    root.output = at(all.parts[static_cast<std::size_t>(end) - 1]).output;
    for (int i = begin; i < end; ++i) {
      const int part = copy_outside_blocks(all.parts[static_cast<std::size_t>(i)]);
      search_node const& n = out_.nodes[static_cast<std::size_t>(part)];
      root.parts.push_back(part);
      root.layers += n.layers;
      root.sums += n.sums;
      root.learns = root.learns || n.learns;
    }
    root.learns = root.learns || root.wants_input;
    push(std::move(root), -1);
  }

  search_graph<Axes> take() { return std::move(out_); }
  /// By node: where it comes from in the priced graph; -1 for what is put around others.
  std::vector<int> const& sources() const { return sources_; }
  /// Whether blocks were there to run again.
  bool has_blocks() const { return blocks_; }

 private:
  search_node const& at(int i) const { return from_.nodes[static_cast<std::size_t>(i)]; }
  int push(search_node node, int source) {
    out_.nodes.push_back(std::move(node));
    sources_.push_back(source);
    return static_cast<int>(out_.nodes.size()) - 1;
  }

  bool recomputes(int node) const {
    search_node const& n = at(node);
    return n.kind == search_kind::recompute ||
           std::any_of(n.parts.begin(), n.parts.end(), [&](int part) { return recomputes(part); });
  }
  /// A block: a residual, or a chain of which no part is a chain, reached from the outermost chain through chains
  /// alone.
  bool is_block(int node) const {
    search_node const& n = at(node);
    if (recomputes(node)) return false;
    return n.kind == search_kind::residual ||
           (n.kind == search_kind::chain && std::none_of(n.parts.begin(), n.parts.end(), [&](int part) {
              return at(part).kind == search_kind::chain;
            }));
  }

  int copy_outside_blocks(int node) {
    if (const auto found = outside_.find(node); found != outside_.end()) return found->second;
    search_node const& n = at(node);
    int place = -1;
    if (is_block(node)) {
      blocks_ = true;
      place = terms_.recompute && (n.wants_input || n.learns) ? again(node) : copy(node, 0);
    } else if (n.kind == search_kind::chain) {
      search_node chain = n;
      for (int& part : chain.parts) part = copy_outside_blocks(part);
      place = push(std::move(chain), node);
    } else {
      place = copy(node, 0);
    }
    outside_.emplace(node, place);
    return place;
  }

  /// A block that runs forward once more, and keeps its input.
  int again(int node) {
    search_node const& n = at(node);
    search_node out;
    out.kind = search_kind::recompute;
    out.input = n.input;
    out.output = n.output;
    out.wants_input = n.wants_input;
    out.learns = n.learns;
    out.layers = n.layers;
    out.sums = n.sums;
    keep_input(out, node);
    out.parts.push_back(copy(node, 1));
    return push(std::move(out), -1);
  }
  void keep_input(search_node& out, int node) {
    for (const edge_code code : all_edges(from_.mesh, out.input.rank, false, true)) {
      auto const& extents = from_.facts[static_cast<std::size_t>(node)].input;
      const auto block = largest_block(from_.mesh, layout_of_edge<Axes>(code), extents, 1);
      out.kept_bytes.push_back(
          out.wants_input || out.learns ? terms_.live * block_bytes(block.size(), from_.element_bytes) : 0);
    }
  }

  int copy(int node, int more_forwards) {
    const std::pair key{node, more_forwards};
    if (const auto found = copies_.find(key); found != copies_.end()) return found->second;
    search_node n = at(node);
    for (int& part : n.parts) part = copy(part, more_forwards);
    for (search_time& time : n.sum_times) time = time / n.forwards * (n.forwards + more_forwards);
    n.forwards += more_forwards;
    if (n.kind == search_kind::recompute) keep_input(n, node);
    if (n.kind == search_kind::layer) price(n, from_.facts[static_cast<std::size_t>(node)]);
    const int place = push(std::move(n), node);
    copies_.emplace(key, place);
    return place;
  }

  void price(search_node& n, device_node<Axes> const& facts) const {
    std::vector<double> seconds;
    n.cut_bytes.clear();
    for (cut_price<Axes> const& cut : facts.cuts) {
      double sum = n.forwards * (cut.forward + cut.forward_messages) + cut.backward + cut.backward_messages;
      // What a recomputed part makes again lives only while its own backward runs.
      index_t bytes = n.forwards == 1 ? terms_.live * cut.kept : 0;
      for (std::size_t p = 0; p < cut.parameters.size(); ++p) {
        const bool trainable = facts.parameters[p].trainable;
        bytes += bytes_of(cut.parameters[p], trainable);
        if (trainable) sum += seconds_of_sharing(cut.parameters[p], n.forwards);
      }
      seconds.push_back(sum);
      n.cut_bytes.push_back(bytes);
    }
    for (std::size_t w = 0; w < n.ways.size(); ++w)
      n.ways[w].time = picoseconds(seconds[static_cast<std::size_t>(n.ways[w].cut)] + facts.whole_gradients[w]);
  }

  /// Values, gradients, their sums over parts, and what the optimizer remembers; buckets that take turns are apart.
  index_t bytes_of(cut_parameter const& p, bool trainable) const {
    const auto bytes = [&](int ranks) { return block_bytes((p.elements + ranks - 1) / ranks, from_.element_bytes); };
    if (!trainable) return bytes(1);
    const int ranks = from_.mesh.group_size(p.axes);
    const index_t gradients = bytes(terms_.level > 1 ? ranks : 1) * (terms_.parts > 1 ? 2 : 1);
    return bytes(terms_.level > 2 ? ranks : 1) + gradients + terms_.remembered * bytes(terms_.level > 0 ? ranks : 1);
  }

  /// Reductions of the gradient and gathers of the values, by their bytes, for one part: the bytes of a step are spread
  /// over its parts where it has them once.
  double seconds_of_sharing(cut_parameter const& p, int forwards) const {
    const double bytes = static_cast<double>(p.elements * from_.element_bytes);
    const double gather = from_.costs.gather[p.axes].seconds_per_byte * bytes;
    const double once = 1.0 / terms_.parts;
    double sum = terms_.level > 1 ? gather : 2 * from_.costs.bucket[p.axes].seconds_per_byte * bytes * once;
    if (terms_.level > 0) sum += gather * (terms_.level == 3 ? 1 + forwards : once);
    return terms_.gradient_share * sum;
  }

  device_graph<Axes> const& from_;
  device_terms terms_;
  search_graph<Axes> out_{};
  std::vector<int> sources_{};
  std::map<int, int> outside_{};
  std::map<std::pair<int, int>, int> copies_{};
  bool blocks_ = false;
};

}  // namespace tessera::detail
