#pragma once

#include <tessera/plan/layer_price.hpp>
#include <tessera/plan/search/layer_cuts.hpp>

namespace tessera {

namespace detail {

/// All ways to cut a layer in a search.
template <class Problem, class Layer, auto Extents>
constexpr std::vector<letter_cuts> ways_to_cut() {
  return ways_to_cut(Problem::mesh::value, cut_rules_of<Problem, Layer, Extents>());
}

/// The layout of the weight that a layer shares with others, with that of its gradient, plus one.
template <int Axes, class... P>
constexpr edge_code tie_of_layer(resolved_layer<Axes> const& resolved, parameter_list<P...> const*) {
  int operand = 0;
  edge_code tie = 0;
  [[maybe_unused]] const auto one = [&](bool named) {
    ++operand;
    if (named)
      tie = edge_of(resolved.operand[operand], static_cast<axis_set>(resolved.gradient[operand].partial_axes())) + 1;
  };
  (one(!std::is_void_v<typename P::tie>), ...);
  return tie;
}

/// Adding two tensors of a layout into a third.
template <class Problem, int Rank>
constexpr search_time time_of_sum(edge_code code, shape<Rank> const& extents) {
  const double elements = largest_size(Problem::mesh::value, layout_of_edge<Problem::mesh::axes>(code), extents,
                                       Problem::unknown);
  return picoseconds(Problem::machine.seconds(0, 3 * elements * static_cast<double>(Problem::element_bytes),
                                              Problem::element_bytes, kernel_kind::map));
}

/// What a layer takes in one cut: its passes, and its gradients' reductions as far as they count.
template <class Problem, class Layer, auto Extents, bool WantsInput, int Forwards>
constexpr double seconds_of_cut(resolved_layer<Problem::mesh::axes> const& resolved) {
  constexpr bool learns = any_trainable(static_cast<typename Layer::parameters const*>(nullptr));
  const layer_price price = price_of<Layer, Extents, typename Problem::mesh>(
      Problem::machine, Problem::costs, resolved, WantsInput, Problem::element_bytes, Problem::unknown);
  return Forwards * price.forward + (WantsInput || learns ? price.backward : 0.0) +
         Problem::gradient_weight * price.gradient;
}

/// A way of running a layer: a variant of one of its cuts.
template <class Problem, class Layer, auto Extents, bool WantsInput>
constexpr layer_way way_of_variant(cut_variant const& variant, double seconds, edge_code tie) {
  constexpr auto output = Layer::template output<Extents>();
  layer_way way;
  way.cut = variant.cut;
  way.taken = WantsInput ? variant.taken : variant.taken_unwanted;
  way.made = variant.made;
  way.tie = tie;
  way.time = picoseconds(seconds + variant.whole_gradient.latency +
                         variant.whole_gradient.seconds_per_byte * Problem::template bytes_of<output>());
  return way;
}

/// Calls `f(way)` for each way of running a layer that is cut in one way: it depends on where the gradient of its output
/// comes back partial. At run time; `searched_layer` has them as constants.
template <class Problem, class Layer, auto Extents, bool WantsInput, int Forwards, class F>
constexpr void each_way(letter_cuts const& cuts, int cut, F f) {
  constexpr auto* parameters = static_cast<typename Layer::parameters const*>(nullptr);
  constexpr cut_rules rules = cut_rules_of<Problem, Layer, Extents>();
  const auto resolved = rules.template lay_out<Problem::mesh::axes>(cuts);
  const double seconds = seconds_of_cut<Problem, Layer, Extents, WantsInput, Forwards>(resolved);
  const edge_code tie = tie_of_layer(resolved, parameters);
  each_variant<Problem, Extents.rank, Layer::template output<Extents>().rank>(
      resolved, rules.passes, cut, [&](cut_variant const& variant) {
        if (variant.whole || WantsInput || any_trainable(parameters))
          f(way_of_variant<Problem, Layer, Extents, WantsInput>(variant, seconds, tie));
      });
}

}  // namespace detail

/// A layer in a search: in which ways it can be cut, and in which it can run. `Forwards` is how often its forward pass
/// runs in a step.
template <class Problem, class Layer, auto Extents, bool WantsInput, int Forwards>
struct searched_layer {
  static constexpr auto output = Layer::template output<Extents>();
  using kind = detail::layer_cuts<Problem, detail::cut_rules_of<Problem, Layer, Extents>(), Extents.rank, output.rank>;

  /// The cut of a way.
  static constexpr detail::letter_cuts const& cut(layer_way const& way) { return kind::cuts.list[way.cut]; }

 private:
  static constexpr auto* parameters = static_cast<typename Layer::parameters const*>(nullptr);
  static constexpr bool runs_backward = WantsInput || detail::any_trainable(parameters);
  struct cut_price {
    double seconds = 0;
    edge_code tie = 0;
  };
  struct some_prices {
    cut_price list[kind::at_a_time] = {};
  };
  // Some cuts at a time, so that no constant takes long to evaluate.
  template <std::size_t First>
  static constexpr some_prices prices = [] {
    some_prices out;
    for (std::size_t i = First; i < kind::count && i < First + kind::at_a_time; ++i) {
      auto const& resolved = kind::cuts.resolved[i];
      out.list[i - First] = {detail::seconds_of_cut<Problem, Layer, Extents, WantsInput, Forwards>(resolved),
                             detail::tie_of_layer(resolved, parameters)};
    }
    return out;
  }();
  static constexpr std::size_t count = [] {
    std::size_t n = 0;
    for (auto const& variant : kind::variants) n += variant.whole || runs_backward;
    return n;
  }();

 public:
  static constexpr auto ways = []<std::size_t... I>(std::index_sequence<I...>) {
    some_prices const* const all[] = {&prices<I * kind::at_a_time>...};
    std::array<layer_way, count> out{};
    layer_way* at = out.data();
    for (auto const& variant : kind::variants) {
      if (!variant.whole && !runs_backward) continue;
      const auto i = static_cast<std::size_t>(variant.cut);
      cut_price const& price = all[i / kind::at_a_time]->list[i % kind::at_a_time];
      *at++ = detail::way_of_variant<Problem, Layer, Extents, WantsInput>(variant, price.seconds, price.tie);
    }
    return out;
  }
  (std::make_index_sequence<kind::parts>{});
};

}  // namespace tessera
