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
  index_t elements = 1;
  for (int d = 0; d < Rank; ++d) {
    index_t extent = extents[d] == dynamic ? Problem::unknown : extents[d];
    for (int a = 0; a < Problem::mesh::axes; ++a)
      if (static_cast<int>(edge::at(code, a) / 8) == d + 1)
        extent = (extent + Problem::mesh::value[a] - 1) / Problem::mesh::value[a];
    elements *= extent;
  }
  return picoseconds(
      Problem::machine.seconds(0, 3 * static_cast<double>(elements) * static_cast<double>(Problem::element_bytes),
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

/// Whether a layer has a parameter that it shares.
template <class... P>
constexpr bool shares_weight(parameter_list<P...> const*) {
  return (false || ... || !std::is_void_v<typename P::tie>);
}

/// A way of running a layer: a variant of one of its cuts. `bytes` are those of its output, all devices together.
template <bool WantsInput>
constexpr layer_way way_of_variant(cut_variant const& variant, double seconds, edge_code tie, double bytes) {
  layer_way way;
  way.cut = variant.cut;
  way.taken = WantsInput ? variant.taken : variant.taken_unwanted;
  way.made = variant.made;
  way.tie = tie;
  way.time = picoseconds(seconds + variant.whole_gradient.latency + variant.whole_gradient.seconds_per_byte * bytes);
  return way;
}

/// Calls `f(way)` for each way of running a layer that is cut in one way: it depends on where the gradient of its
/// output comes back partial. At run time; `searched_layer` has them as constants.
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
          f(way_of_variant<WantsInput>(variant, seconds, tie,
                                       Problem::template bytes_of<Layer::template output<Extents>()>()));
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
  static constexpr std::size_t at_a_time = 8;
  struct some_prices {
    double seconds[at_a_time] = {};
  };
  // Some cuts at a time, so that no constant takes long to evaluate.
  template <std::size_t First>
  static constexpr some_prices prices = [] {
    some_prices out;
    for (std::size_t i = First; i < kind::cuts.prices && i < First + at_a_time; ++i)
      out.seconds[i - First] = detail::seconds_of_cut<Problem, Layer, Extents, WantsInput, Forwards>(
          kind::cuts.resolved[kind::cuts.priced[i]]);
    return out;
  }();
  static constexpr std::size_t count = [] {
    std::size_t n = 0;
    for (std::size_t v = 0; v < kind::variant_count; ++v) n += kind::variants.data()[v].whole || runs_backward;
    return n;
  }();

 public:
  static constexpr auto ways = []<std::size_t... I>(std::index_sequence<I...>) {
    some_prices const* const all[] = {&prices<I * at_a_time>...};
    edge_code ties[kind::count] = {};
    if constexpr (detail::shares_weight(parameters))
      for (std::size_t i = 0; i < kind::count; ++i) ties[i] = detail::tie_of_layer(kind::cuts.resolved[i], parameters);
    constexpr double bytes = Problem::template bytes_of<output>();
    std::array<layer_way, count> out{};
    layer_way* at = out.data();
    for (std::size_t v = 0; v < kind::variant_count; ++v) {
      detail::cut_variant const& variant = kind::variants.data()[v];
      if (!variant.whole && !runs_backward) continue;
      const auto price = static_cast<std::size_t>(kind::cuts.price[variant.cut]);
      *at++ = detail::way_of_variant<WantsInput>(variant, all[price / at_a_time]->seconds[price % at_a_time],
                                                 ties[variant.cut], bytes);
    }
    return out;
  }
  (std::make_index_sequence<(kind::cuts.prices + at_a_time - 1) / at_a_time>{});
};

}  // namespace tessera
