#pragma once

#include <tessera/core/type_text.hpp>
#include <tessera/layer/chain.hpp>
#include <tessera/layer/recompute.hpp>
#include <tessera/layer/relayout.hpp>
#include <tessera/layer/residual.hpp>
#include <tessera/plan/layer_cost.hpp>
#include <tessera/plan/layer_price.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

/// The place of a layer in its model, as parameters are named: `2.branch.0`. Deeper places are cut off.
class layer_path {
 public:
  constexpr std::string_view text() const { return {text_, size_}; }
  constexpr void add(std::string_view name) {
    if (size_ > 0) put('.');
    for (const char c : name) put(c);
  }
  constexpr void add(int number) {
    char digits[10] = {};
    std::size_t count = 0;
    do digits[count++] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    if (size_ > 0) put('.');
    while (count > 0) put(digits[--count]);
  }

 private:
  constexpr void put(char c) {
    if (size_ < sizeof(text_)) text_[size_++] = c;
  }
  char text_[60] = {};
  std::size_t size_ = 0;
};

/// A collective of a step and what it costs.
template <int Axes>
struct priced_call {
  collective_call<Axes> call{};
  double bytes = 0;  ///< of its payload on the device that has most, as `collective_call::elements` counts
  double seconds = 0;
};

/// What is known of one layer of a bound model: a row of a table. Layout words are rows, and so are the sums of
/// residuals, and the way of the output to the loss.
template <int Axes>
struct priced_layer {
  layer_path path{};
  std::string_view layer{};      ///< its type; `layout`, `sum` and `output` for what has none
  std::string_view cut[8] = {};  ///< by axis: the split word of the dimension that it cuts, or nothing
  placements<Axes> input{};      ///< as the layer takes it
  placements<Axes> output{};
  double forward = 0;  ///< seconds, with all collectives: those of routes to the layer, and its own
  double backward = 0;
  double forward_messages = 0;  ///< of these, seconds of collectives
  double backward_messages = 0;
  double gradient = 0;  ///< as in `layer_price`
  index_t parameter_bytes = 0;
  index_t gradient_bytes = 0;
  int first_parameter = 0;  ///< positions among the trainable parameters of the model
  int parameters = 0;
  std::vector<priced_call<Axes>> calls{};  ///< in order, forward and backward
};

/// A part of backward, in the order in which parts run.
struct priced_pass {
  int layer = 0;
  double seconds = 0;
  double messages = 0;     ///< of these, seconds of collectives
  bool gradients = false;  ///< whether the gradients of the layer's parameters exist after it
};

/// All layers of a bound model in order of forward, and the parts of backward.
template <int Axes>
struct priced_layers {
  std::vector<priced_layer<Axes>> rows{};
  std::vector<priced_pass> backward{};

  /// What a search adds up: passes, and reductions of gradients as if backward hid none.
  constexpr double additive() const {
    double sum = 0;
    for (auto const& row : rows) sum += row.forward + row.backward + row.gradient;
    return sum;
  }
};

/// What prices of a model are for.
struct price_settings {
  index_t unknown = 32;  ///< extents that only run time knows count as this: the usual size of the batch
  index_t element_bytes = 4;
};

namespace detail {

/// Fills the rows of a model.
template <device_mesh Mesh>
struct pricing {
  static constexpr int axes = Mesh::axes;
  machine_description const& machine;
  mesh_costs<axes> const& costs;
  price_settings settings;
  priced_layers<axes> out{};
  layer_path path{};
  int next_parameter = 0;

  constexpr priced_layer<axes>& add_row(std::string_view layer, placements<axes> const& input,
                                        placements<axes> const& output) {
    priced_layer<axes> row;
    row.path = path;
    row.layer = layer;
    row.input = input;
    row.output = output;
    row.first_parameter = next_parameter;
    out.rows.push_back(row);
    return out.rows.back();
  }
  constexpr void note(priced_layer<axes>& row, collective_call<axes> call, double seconds) const {
    for (int d = 0; d < call.rank; ++d)
      if (call.extents[d] == dynamic) call.extents[d] = settings.unknown;
    // The first device has the largest blocks, an inner one neighbours on both sides, the last one all blocks of a
    // ring.
    typename mesh_sizes<axes>::coordinates_type at{};
    index_t elements = 0;
    for (int third = 0; third < 3; ++third) {
      for (int a = 0; a < axes; ++a) at[static_cast<std::size_t>(a)] = third * (Mesh::value[a] - 1) / 2;
      elements = std::max(elements, call.template elements<Mesh>(settings.unknown, at));
    }
    row.calls.push_back({call, static_cast<double>(elements * settings.element_bytes), seconds});
  }
  /// Appends the collectives of a route; returns their time.
  template <int Rank>
  constexpr double route(priced_layer<axes>& row, phase when, shape<Rank> const& extents, placements<axes> const& from,
                         placements<axes> const& to) const {
    double whole = static_cast<double>(settings.element_bytes);
    for (int d = 0; d < Rank; ++d) whole *= static_cast<double>(extents[d] == dynamic ? settings.unknown : extents[d]);
    call_list<axes> calls;
    append_route<Mesh>(calls, when, extents, from, to);
    double sum = 0;
    for (auto const& call : calls) {
      const double seconds = seconds_of(cost_of_step(Mesh::value, costs, one_step(call.from, call.to)), whole);
      note(row, call, seconds);
      sum += seconds;
    }
    return sum;
  }
  /// Appends the collectives of a layer's own; returns their time.
  constexpr double own(priced_layer<axes>& row, call_list<axes> const& calls) const {
    double sum = 0;
    for (auto const& call : calls) {
      const double seconds = seconds_of_call<Mesh>(costs, call, settings.element_bytes, settings.unknown);
      note(row, call, seconds);
      sum += seconds;
    }
    return sum;
  }
  /// A part of backward of a row, `messages` of it in collectives.
  constexpr void pass(int row, double kernels, double messages, bool gradients = false) {
    auto& r = out.rows[static_cast<std::size_t>(row)];
    r.backward += kernels + messages;
    r.backward_messages += messages;
    out.backward.push_back({row, kernels + messages, messages, gradients});
  }
};

/// How a bound layer of any kind prices itself: `forward` appends its rows, `backward` adds to those from `first` on.
template <class Bound>
struct pricing_of;

template <class Layer, class Mesh, class Flow>
struct pricing_of<bound_layer<Layer, Mesh, Flow>> {
  using bound = bound_layer<Layer, Mesh, Flow>;
  static constexpr int rows = 1;

  static constexpr double kernels(pricing<Mesh> const& p, layer_pass pass) {
    double sum = 0;
    const double element = static_cast<double>(p.settings.element_bytes);
    each_kernel<Layer, Flow::extents, Mesh>(
        bound::resolved, p.settings.unknown, [&](layer_pass of, double flops, double elements, kernel_kind kind) {
          if (of == pass) sum += p.machine.seconds(flops, elements * element, p.settings.element_bytes, kind);
        });
    return sum;
  }

  static constexpr void forward(pricing<Mesh>& p) {
    auto& row = p.add_row(short_type_text<Layer>(), bound::resolved.operand[0], bound::resolved.output);
    for (int a = 0; a < Mesh::axes; ++a)
      if (const int cut = bound::rules.find(bound::resolved.letter[a]); cut >= 0)
        row.cut[a] = bound::rules.cuts[cut].word;
    std::vector<parameter_info<Mesh::axes>> list;
    bound::append_parameters(list);
    for (auto const& one : list) row.parameters += one.trainable;
    p.next_parameter += row.parameters;
    layer_price price;
    price_parameters<Mesh>(price, p.costs, bound::resolved, p.settings.element_bytes,
                           static_cast<typename Layer::parameters const*>(nullptr));
    row.gradient = price.gradient;
    row.parameter_bytes = price.parameter_bytes;
    row.gradient_bytes = price.gradient_bytes;
    row.forward_messages = p.route(row, phase::forward, Flow::extents, Flow::layout, bound::resolved.operand[0]) +
                           p.own(row, own_calls<Layer, Flow::extents, Mesh>(phase::forward, bound::resolved, false));
    row.forward = kernels(p, layer_pass::forward) + row.forward_messages;
  }
  static constexpr void backward(pricing<Mesh>& p, int first, placements<Mesh::axes> const& arriving,
                                 bool wants_input) {
    if (!wants_input && !bound::learns) return;
    auto& row = p.out.rows[static_cast<std::size_t>(first)];
    double messages = p.route(row, phase::backward, bound::output_extents, arriving, bound::needed(arriving)) +
                      p.own(row, own_calls<Layer, Flow::extents, Mesh>(phase::backward, bound::resolved, wants_input));
    double computing = kernels(p, layer_pass::parameters);
    if (wants_input) {
      messages += p.route(row, phase::backward, Flow::extents, bound::produced(arriving), bound::gradient(arriving));
      computing += kernels(p, layer_pass::input);
    }
    p.pass(first, computing, messages, true);
  }
};

template <auto Target, class Mesh, class Flow>
struct pricing_of<bound_relayout<Target, Mesh, Flow>> {
  using bound = bound_relayout<Target, Mesh, Flow>;
  static constexpr int rows = 1;
  static constexpr void forward(pricing<Mesh>& p) {
    auto& row = p.add_row("layout", Flow::layout, Target);
    row.forward = row.forward_messages = p.route(row, phase::forward, Flow::extents, Flow::layout, Target);
  }
  static constexpr void backward(pricing<Mesh>& p, int first, placements<Mesh::axes> const& arriving,
                                 bool wants_input) {
    if (!wants_input) return;
    auto& row = p.out.rows[static_cast<std::size_t>(first)];
    p.pass(first, 0, p.route(row, phase::backward, Flow::extents, arriving, bound::gradient(arriving)));
  }
};

template <class Chain, class Mesh, class Flow>
struct pricing_of<bound_chain<Chain, Mesh, Flow>> {
  using bound = bound_chain<Chain, Mesh, Flow>;
  template <int I>
  using at = pricing_of<typename bound::template at<I>>;
  /// The rows of the first `Count` layers.
  template <int Count>
  static constexpr int rows_before = []<int... I>(std::integer_sequence<int, I...>) {
    return (0 + ... + at<I>::rows);
  }
  (std::make_integer_sequence<int, Count>{});
  static constexpr int rows = rows_before<bound::count>;

  static constexpr void forward(pricing<Mesh>& p) {
    const layer_path path = p.path;
    int place = 0;
    const auto one = [&]<int I>(std::integral_constant<int, I>) {
      p.path = path;
      // Layout words have no place of their own.
      if constexpr (!bound::template at<I>::only_layout) p.path.add(place++);
      at<I>::forward(p);
    };
    [&]<int... I>(std::integer_sequence<int, I...>) { (one(std::integral_constant<int, I>{}), ...); }
    (std::make_integer_sequence<int, bound::count>{});
    p.path = path;
  }
  static constexpr void backward(pricing<Mesh>& p, int first, placements<Mesh::axes> arriving, bool wants_input) {
    const auto one = [&]<int I>(std::integral_constant<int, I>) {
      if (!wants_input && !bound::template learns_before<I + 1>) return;
      at<I>::backward(p, first + rows_before<I>, arriving, wants_input || bound::template learns_before<I>);
      arriving = bound::template at<I>::gradient(arriving);
    };
    [&]<int... I>(std::integer_sequence<int, I...>) { (one(std::integral_constant<int, bound::count - 1 - I>{}), ...); }
    (std::make_integer_sequence<int, bound::count>{});
  }
};

template <class Branch, class Shortcut, class Mesh, class Flow>
struct pricing_of<bound_residual<Branch, Shortcut, Mesh, Flow>> {
  using bound = bound_residual<Branch, Shortcut, Mesh, Flow>;
  using branch = pricing_of<typename bound::branch>;
  static constexpr int shortcut_rows = [] {
    if constexpr (bound::plain)
      return 0;
    else
      return pricing_of<typename bound::shortcut>::rows;
  }();
  static constexpr int rows = branch::rows + shortcut_rows + 1;

  /// Adding two tensors into a third.
  template <int Rank>
  static constexpr double sum(pricing<Mesh> const& p, placements<Mesh::axes> const& layout, shape<Rank> const& extents) {
    const double elements = 3 * largest_size(Mesh::value, layout, extents, p.settings.unknown);
    return p.machine.seconds(0, elements * static_cast<double>(p.settings.element_bytes), p.settings.element_bytes,
                             kernel_kind::map);
  }
  static constexpr void forward(pricing<Mesh>& p) {
    const layer_path path = p.path;
    p.path.add("branch");
    branch::forward(p);
    if constexpr (!bound::plain) {
      p.path = path;
      p.path.add("shortcut");
      pricing_of<typename bound::shortcut>::forward(p);
    }
    p.path = path;
    auto& row = p.add_row("sum", bound::joined, bound::joined);
    row.forward_messages =
        p.route(row, phase::forward, bound::branch_output::extents, bound::branch_output::layout, bound::joined) +
        p.route(row, phase::forward, bound::shortcut_output::extents, bound::shortcut_output::layout, bound::joined);
    row.forward = sum(p, bound::joined, bound::output::extents) + row.forward_messages;
  }
  static constexpr void backward(pricing<Mesh>& p, int first, placements<Mesh::axes> const& arriving,
                                 bool wants_input) {
    const int last = first + rows - 1;
    auto& row = p.out.rows[static_cast<std::size_t>(last)];
    const auto needed = bound::needed(arriving);
    const bool to_shortcut = wants_input || bound::shortcut_learns;
    const bool to_branch = wants_input || bound::branch::learns;
    double messages = p.route(row, phase::backward, bound::output::extents, arriving, needed);
    if (to_shortcut)
      messages += p.route(row, phase::backward, bound::output::extents, needed, bound::shortcut_arriving(arriving));
    if (to_branch)
      messages += p.route(row, phase::backward, bound::output::extents, needed, bound::branch_arriving(arriving));
    p.pass(last, 0, messages);
    if constexpr (!bound::plain)
      if (to_shortcut)
        pricing_of<typename bound::shortcut>::backward(p, first + branch::rows, bound::shortcut_arriving(arriving),
                                                       wants_input);
    if (to_branch) branch::backward(p, first, bound::branch_arriving(arriving), wants_input);
    if (!wants_input) return;
    const double joining =
        p.route(row, phase::backward, Flow::extents, bound::branch::gradient(bound::branch_arriving(arriving)),
                bound::gradient(arriving)) +
        p.route(row, phase::backward, Flow::extents, bound::shortcut_gradient(arriving), bound::gradient(arriving));
    p.pass(last, sum(p, Flow::layout, Flow::extents), joining);
  }
};

template <class Layer, class Mesh, class Flow>
struct pricing_of<bound_recompute<Layer, Mesh, Flow>> {
  using bound = bound_recompute<Layer, Mesh, Flow>;
  using inner = pricing_of<typename bound::inner>;
  static constexpr int rows = inner::rows;
  static constexpr void forward(pricing<Mesh>& p) { inner::forward(p); }
  static constexpr void backward(pricing<Mesh>& p, int first, placements<Mesh::axes> const& arriving,
                                 bool wants_input) {
    if (!wants_input && !bound::learns) return;
    // Forward runs once more.
    for (int i = first; i < first + rows; ++i) {
      auto& row = p.out.rows[static_cast<std::size_t>(i)];
      const std::size_t calls = row.calls.size();
      for (std::size_t c = 0; c < calls; ++c) {
        auto again = row.calls[c];
        again.call.when = phase::backward;
        row.calls.push_back(again);
      }
      p.pass(i, row.forward - row.forward_messages, row.forward_messages);
    }
    inner::backward(p, first, arriving, wants_input);
  }
};

}  // namespace detail

/// The layers of a bound model of any kind, with what each costs on a machine: in forward, and in backward where the
/// output's gradient arrives in layout `arriving`. `wants_input`: whether the gradient of the model's input is wanted;
/// `to_loss`: whether the output is brought to `arriving`, in a row of its own, as a loss takes it.
///
/// The collectives of all rows are those that the bound model lists.
template <class Bound>
constexpr priced_layers<Bound::mesh::axes> price_layers(machine_description const& machine,
                                                        mesh_costs<Bound::mesh::axes> const& costs,
                                                        price_settings const& settings,
                                                        placements<Bound::mesh::axes> const& arriving,
                                                        bool wants_input = false, bool to_loss = false) {
  using output = typename Bound::output;
  detail::pricing<typename Bound::mesh> p{machine, costs, settings};
  detail::pricing_of<Bound>::forward(p);
  if (to_loss) {
    auto& row = p.add_row("output", output::layout, arriving);
    row.forward = row.forward_messages = p.route(row, phase::forward, output::extents, output::layout, arriving);
  }
  detail::pricing_of<Bound>::backward(p, 0, arriving, wants_input);
  return p.out;
}

}  // namespace tessera
