#pragma once

#include <tessera/layer/stage.hpp>
#include <tessera/plan/backward_times.hpp>
#include <tessera/plan/parallel.hpp>
#include <tessera/plan/pipeline_schedule.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace tessera {

/// Where so many runs of consecutive entries begin, so that the sum of the most expensive run is as small as can be.
/// There are at least as many entries as runs.
///
/// Exact: the smallest bound that runs keep which are filled one after the other is found by bisection.
constexpr std::vector<int> balance(std::span<index_t const> costs, std::size_t runs) {
  std::vector<int> begins(runs, 0);
  const auto fits = [&](index_t bound) {
    std::size_t run = 1;
    index_t held = 0;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const bool last_chance = costs.size() - i == runs - run;  // one entry for each run that is left
      if (i > 0 && (held + costs[i] > bound || last_chance)) {
        if (run == runs) return false;
        begins[run++] = static_cast<int>(i);
        held = 0;
      }
      held += costs[i];
      if (held > bound) return false;
    }
    return true;
  };
  index_t low = 0;
  index_t high = 0;
  for (const index_t cost : costs) high += cost;
  while (low < high) {
    const index_t middle = low + (high - low) / 2;
    if (fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  fits(high);
  return begins;
}
template <std::size_t Runs>
constexpr std::array<int, Runs> balance(std::span<index_t const> costs) {
  std::array<int, Runs> begins{};
  const std::vector<int> found = balance(costs, Runs);
  std::copy(found.begin(), found.end(), begins.begin());
  return begins;
}

namespace detail {

/// Whether a mark of a stage lies inside a layer.
template <class Layer>
struct has_stage_mark : std::bool_constant<(stage_number<Layer> >= 0)> {};
template <class Layer>
requires requires {
  typename Layer::composition;
} &&(!std::is_same_v<typename Layer::composition, Layer>)struct has_stage_mark<Layer>
    : has_stage_mark<typename Layer::composition> {
};
template <class... Layers>
struct has_stage_mark<chain<Layers...>> : std::bool_constant<(has_stage_mark<Layers>::value || ...)> {};
template <class Branch, class Shortcut>
struct has_stage_mark<residual<Branch, Shortcut>>
    : std::bool_constant<has_stage_mark<Branch>::value || has_stage_mark<Shortcut>::value> {};
template <class Layer>
struct has_stage_mark<recompute<Layer>> : has_stage_mark<Layer> {};

/// The layers of a model's outermost chain.
template <class Bound>
struct staged_chain {
  static constexpr bool is_chain = false;
};
template <class Chain, class Mesh, class Flow>
struct staged_chain<bound_chain<Chain, Mesh, Flow>> {
  using bound = bound_chain<Chain, Mesh, Flow>;
  static constexpr bool is_chain = true;
  static constexpr int count = Chain::count;
  template <int I>
  using layer = type_at<I, typename Chain::layers>;

  /// Layers `Begin` and later as a chain of their own.
  template <int Begin, int... I>
  static auto part(std::integer_sequence<int, I...>) -> chain<layer<Begin + I>...>;

  /// `f` of the place of each layer.
  template <class F>
  static constexpr auto of_each(F f) {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return std::array{f(std::integral_constant<int, I>{})...};
    }
    (std::make_integer_sequence<int, count>{});
  }
  /// The number of the mark at each place, -1 for a layer.
  static constexpr auto marks = of_each([]<int I>(std::integral_constant<int, I>) { return stage_number<layer<I>>; });
  /// Whether there is a layer that computes, which marks and layout words do not.
  static constexpr auto computes =
      of_each([]<int I>(std::integral_constant<int, I>) { return !bound::template at<I>::only_layout; });
  static constexpr bool marks_inside_layers = [] {
    const auto inside =
        of_each([]<int I>(std::integral_constant<int, I>) { return marks[I] < 0 && has_stage_mark<layer<I>>::value; });
    return std::find(inside.begin(), inside.end(), true) != inside.end();
  }();
  static constexpr bool marked = std::find_if(marks.begin(), marks.end(), [](int m) { return m >= 0; }) != marks.end();
  static constexpr int layers = static_cast<int>(std::count(computes.begin(), computes.end(), true));

  static constexpr bool marks_rise = [] {
    int before = marks[0] < 0 ? 0 : -1;  // the first stage needs no mark
    for (const int m : marks)
      if (m >= 0 && m != ++before) return false;
    return true;
  }();
  /// Number of stages of the marks.
  static constexpr int marked_stages = 1 + *std::max_element(marks.begin(), marks.end());

  template <std::size_t Stages>
  static constexpr std::array<int, Stages> marked_begins() {
    std::array<int, Stages> begins{};
    for (int i = 0; i < count; ++i)
      if (const int m = marks[static_cast<std::size_t>(i)]; m >= 0) begins[static_cast<std::size_t>(m)] = i;
    return begins;
  }
  /// Layout words go with the layer before them, so that what is sent is what they leave.
  template <std::size_t Stages>
  static constexpr std::array<int, Stages> balanced_begins() {
    const auto costs = of_each([]<int I>(std::integral_constant<int, I>) {
      using layer = typename bound::template at<I>;
      layer_work work = forward_work<layer>();
      std::vector<backward_part> parts;
      if (bound::template learns_before<I + 1>)
        backward_parts<layer>::append(parts, 1, bound::template learns_before<I>);
      for (auto const& part : parts) work = work + part.work;
      return static_cast<index_t>(work.time());
    });
    std::array<index_t, static_cast<std::size_t>(layers)> block_costs{};
    std::array<int, static_cast<std::size_t>(layers)> block_begins{};
    int block = -1;
    for (std::size_t i = 0; i < costs.size(); ++i) {
      if (!computes[i]) continue;
      ++block;
      block_costs[static_cast<std::size_t>(block)] = costs[i];
      if (block > 0) block_begins[static_cast<std::size_t>(block)] = static_cast<int>(i);
    }
    auto begins = balance<Stages>(block_costs);
    for (int& begin : begins) begin = block_begins[static_cast<std::size_t>(begin)];
    return begins;
  }
};

}  // namespace detail

/// A parameter of one stage that a layer of a later one shares. `tie` is its mark, as `tie_of` says.
struct stage_tie {
  void const* tie = nullptr;
  int owner = 0;
  int sharer = 0;
};

/// The stages of a model with a `pipeline` policy, everything known while compiling.
template <class Model, device_mesh Mesh>
struct pipeline_plan {
  using whole = plan<Model, Mesh>;
  using policy = typename whole::parts::pipeline;
  using schedule = typename policy::schedule;
  using bound = typename whole::bound;
  using layers = detail::staged_chain<bound>;

  /// The mesh axis along which the stages lie, and its devices.
  static constexpr int axis = Mesh::template index_of<typename policy::axis>;
  static constexpr axis_set axes = static_cast<axis_set>(1u << axis);
  static constexpr int devices = policy::axis::size;
  static constexpr int stages = devices * schedule::chunks;
  /// The device that holds a stage, those before the first and after the last counted round, and which of its chunks.
  static constexpr int device_of(int number) { return (number + devices) % devices; }
  static constexpr int chunk_of(int number) { return number / devices; }

  static_assert(layers::is_chain,
                "tessera: a pipeline cuts a chain into stages, and the outermost layer of this model is none; put its "
                "layers into chain<...>");
  static_assert(!layers::marks_inside_layers,
                "tessera: a stage of a pipeline begins inside a layer of the model; put its mark between the layers of "
                "the outermost chain");
  static_assert(layers::marks_rise,
                "tessera: the stages of this model are not numbered in order; write stage<1>, stage<2> and so on, each "
                "once");
  static_assert(!layers::marked || layers::marked_stages == stages,
                "tessera: the marks of this model make another number of stages than its pipeline has: one for each "
                "device along its axis, for each chunk of an interleaved schedule; add or remove stage<N> marks, or "
                "change the axis");
  static_assert(layers::layers >= stages,
                "tessera: the outermost chain of this model has fewer layers than its pipeline has stages; use a "
                "shorter axis or fewer chunks, or take its blocks apart");

  /// Whether the model itself leaves the axis alone.
  static constexpr bool axis_is_free = [] {
    const auto clear = [](placements<Mesh::axes> const& layout) { return layout[axis].is_replicated(); };
    bool free = clear(whole::input::layout);
    layers::of_each([&]<int I>(std::integral_constant<int, I>) {
      return free = free && clear(bound::template at<I>::output::layout);
    });
    for (auto const& p : whole::parameters()) free = free && clear(p.layout) && clear(p.gradient);
    call_list<Mesh::axes> calls;
    bound::append_forward(calls);
    bound::append_backward(calls, whole::loss_layout, false);
    for (auto const& call : calls) free = free && (call.group & axes) == 0;
    return free;
  }();
  static_assert(axis_is_free,
                "tessera: a layer, a layout word or the input of this model is split along the axis of its pipeline; "
                "give the pipeline an axis of its own");

  /// The layer at which each stage begins.
  static constexpr auto begins = [] {
    constexpr auto count = static_cast<std::size_t>(stages);
    if constexpr (layers::marked)
      return layers::template marked_begins<count>();
    else
      return layers::template balanced_begins<count>();
  }();

  /// Stage `S`: a chain of its own.
  template <int S>
  struct stage {
    static constexpr int number = S;
    static constexpr bool last = S + 1 == stages;
    static constexpr int begin = begins[S];
    static constexpr int end = [] {
      if constexpr (last)
        return layers::count;
      else
        return begins[S + 1];
    }();
    static_assert(std::count(layers::computes.begin() + begin, layers::computes.begin() + end, true) > 0,
                  "tessera: a stage of this pipeline has no layer; put one between its mark and the next");
    using input = typename bound::template at<begin>::input;
    using bound_type =
        bind<decltype(layers::template part<begin>(std::make_integer_sequence<int, end - begin>{})), Mesh, input>;
    using output = typename bound_type::output;
    /// The place of its first layer in the names of parameters.
    static constexpr int place =
        static_cast<int>(std::count(layers::computes.begin(), layers::computes.begin() + begin, true));
    /// Whether backward comes to this stage, and whether it goes on to the one before.
    static constexpr bool learns = bound::template learns_before<end>;
    static constexpr bool returns_gradient = bound::template learns_before<begin>;
    /// The layouts of the gradients of its output and its input.
    static constexpr auto arriving = bound::template gradient_before<end>(whole::loss_layout);
    static constexpr auto leaving = bound::template gradient_before<begin>(whole::loss_layout);

    static constexpr std::vector<parameter_info<Mesh::axes>> trainable() {
      std::vector<parameter_info<Mesh::axes>> all;
      bound_type::append_parameters(all);
      std::erase_if(all, [](auto const& p) { return !p.trainable; });
      return all;
    }
    static constexpr std::vector<gradient_bucket> buckets(index_t element_bytes) {
      return fuse_gradients_of<bound_type, typename whole::fusion>(trainable(), element_bytes, whole::level > 0);
    }
    static constexpr bucket_sharing sharing(index_t element_bytes) {
      return share_buckets<bound_type>(buckets(element_bytes), trainable(), whole::sharing_axes(), whole::level);
    }
  };

  /// The parameters that layers of different stages share.
  static constexpr std::vector<stage_tie> ties() {
    std::vector<stage_tie> all;
    const auto list = whole::trainable();
    if (std::none_of(list.begin(), list.end(), [](auto const& p) { return p.tie != nullptr; })) return all;
    std::vector<stage_tie> first;  // each tie in its first stage
    const auto one = [&]<int S>(std::integral_constant<int, S>) {
      for (auto const& p : stage<S>::trainable()) {
        if (p.tie == nullptr) continue;
        const auto same = [&](stage_tie const& t) { return t.tie == p.tie; };
        const auto owner = std::find_if(first.begin(), first.end(), same);
        if (owner == first.end())
          first.push_back({p.tie, S, S});
        else if (owner->owner != S &&
                 std::none_of(all.begin(), all.end(), [&](auto const& t) { return same(t) && t.sharer == S; }))
          all.push_back({p.tie, owner->owner, S});
      }
    };
    [&]<int... S>(std::integer_sequence<int, S...>) { (one(std::integral_constant<int, S>{}), ...); }
    (std::make_integer_sequence<int, stages>{});
    return all;
  }

  /// The share of a step of so many parts in which a device waits, all stages being alike.
  static constexpr double bubble(int parts) { return tessera::bubble<schedule>(devices, parts); }
  /// The most passes through a stage of which device `device` of the axis keeps activations at one time.
  static constexpr int peak_live(int device, int parts) { return tessera::peak_live<schedule>(devices, device, parts); }
};

}  // namespace tessera
