#pragma once

#include <tessera/plan/explain_html.hpp>
#include <tessera/plan/explanation.hpp>
#include <tessera/plan/layer_rows.hpp>
#include <tessera/plan/spell.hpp>
#include <tessera/plan/step_timeline.hpp>
#include <tessera/plan/training_memory.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera {

namespace detail {

/// A model with another input.
template <class Input, class Done, class... Rest>
struct replace_input {
  using type = Done;
};
template <class Input, class Model, class... Done, class First, class... Rest>
struct replace_input<Input, parallel<Model, Done...>, First, Rest...>
    : replace_input<
          Input, std::conditional_t<is_input<First>::value, parallel<Model, Done...>, parallel<Model, Done..., First>>,
          Rest...> {};
template <class Model, class Input>
struct with_input {
  using type = parallel<Model, Input>;
};
template <class Model, class... Policies, class Input>
struct with_input<parallel<Model, Policies...>, Input> : replace_input<Input, parallel<Model, Input>, Policies...> {};

/// What each layer keeps on the first device after forward, in bytes; a block that several keep is that of the first.
template <class Bound, auto Extents, class T>
std::vector<index_t> kept_by_layers() {
  using model = on_paper<Bound, Extents, T>;
  using element = typename Bound::template input_element<T>;
  paper_pass<typename Bound::mesh> p({}, model::layers);
  model::forward(
      p, p.tensor(Bound::input::layout, Extents, sizeof(std::conditional_t<std::is_void_v<element>, T, element>)), 0);
  std::vector<index_t> kept;
  std::set<int> counted;
  for (auto const& blocks : p.kept) {
    kept.push_back(0);
    for (const int block : {blocks.input, blocks.output, blocks.own})
      if (block >= 0 && counted.insert(block).second) kept.back() += p.bytes(block);
  }
  return kept;
}

/// An optimizer of which only its memory is known.
struct remembering {
  index_t values;
  constexpr index_t values_per_element() const { return values; }
};

/// What is there from step to step, and what layers keep, from moment to moment of a timeline.
inline std::vector<memory_moment> memory_moments(std::vector<timed_part> const& timeline,
                                                 std::vector<explained_layer> const& layers, index_t always) {
  std::vector<std::size_t> last_of(layers.size(), timeline.size());
  for (std::size_t i = 0; i < timeline.size(); ++i)
    if (timeline[i].what == timed_part::kind::backward) last_of[static_cast<std::size_t>(timeline[i].of)] = i;
  std::vector<memory_moment> moments{{0, always}};
  index_t held = always;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    auto const& part = timeline[i];
    const auto row = static_cast<std::size_t>(part.of);
    if (part.what == timed_part::kind::forward) held += layers[row].kept_bytes;
    if (part.what == timed_part::kind::backward && last_of[row] == i) held -= layers[row].kept_bytes;
    if (held != moments.back().bytes) moments.push_back({part.end, held});
  }
  if (!timeline.empty()) moments.push_back({timeline.back().end, held});
  return moments;
}

}  // namespace detail

/// What is known of a step of a model, found or written by hand, on a machine: see `explanation`.
///
///     std::ofstream("plan.html") << tessera::explain<found, world, cluster>().html();
///
/// Elements are as large as `T`. `Input` names the extents of a batch on all devices together, or of one part of it
/// where a step takes `parts`; where it, or the model's own input, is known altogether the memory of activations
/// is told too. Where not, extents that only run time knows count as `settings.unknown`. Throws what `price_step`
/// throws.
template <class Model, device_mesh Mesh, computing_machine Machine, class T = float,
          class Input = typename plan<Model, Mesh>::input>
explanation explain(step_settings settings = {}) {
  constexpr bool own_input = std::is_same_v<Input, typename plan<Model, Mesh>::input>;
  using model =
      typename std::conditional_t<own_input, std::type_identity<Model>, detail::with_input<Model, Input>>::type;
  constexpr bool knows_memory = detail::all_known(Input::extents);
  using whole = plan<model, Mesh>;
  settings.element_bytes = sizeof(T);
  constexpr auto const& machine = description_of<Machine>;
  constexpr auto const& costs = costs_of<Mesh, Machine>;
  const auto mesh = named<Mesh>();

  explanation out;
  out.model = spell<Model>("");
  out.mesh = to_string(mesh);
  out.machine = detail::spell_type<Machine>("").line();
  out.device_memory = machine.memory;
  out.settings = settings;
  out.step = price_step<model, Mesh>(machine, costs, settings);

  std::vector<index_t> kept;
  if constexpr (knows_memory) {
    kept = detail::kept_by_layers<typename whole::bound, whole::input::extents, T>();
    out.memory = training_memory<model, Mesh, T, Input>(detail::remembering{settings.remembered}, {}, settings.parts);
  }
  const auto priced = price_model<model, Mesh>(machine, costs, settings);
  const auto rows = layer_rows<model, Mesh>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto const& row = priced.rows[i];
    explained_layer layer;
    static_cast<layer_row&>(layer) = rows[i];
    layer.forward = row.forward;
    layer.backward = row.backward;
    layer.messages = row.forward_messages + row.backward_messages;
    layer.parameter_bytes = row.parameter_bytes;
    layer.gradient_bytes = row.gradient_bytes;
    for (const int keeper : rows[i].keepers)
      if (knows_memory) layer.kept_bytes += kept[static_cast<std::size_t>(keeper)];
    for (auto const& [call, bytes, seconds] : row.calls)
      layer.calls.push_back({call.when == phase::forward, to_string(call.kind), mesh.list(call.group), bytes, seconds});
    out.layers.push_back(std::move(layer));
  }
  if constexpr (!pipelined_model<model>) {
    const auto trainable = whole::trainable();
    const auto buckets = whole::buckets(settings.element_bytes);
    const auto sharing = whole::sharing(settings.element_bytes);
    const detail::priced_buckets<Mesh> of{buckets, sharing, trainable, machine, costs, settings};
    for (int b = 0; b < static_cast<int>(buckets.size()); ++b) {
      auto const& bucket = buckets[static_cast<std::size_t>(b)];
      out.buckets.push_back({static_cast<int>(bucket.members.size()), mesh.list(bucket.axes), of.bytes(b),
                             of.reduction(b), sharing.scatters(b)});
    }
    out.timeline = detail::trace_step<Mesh>(priced, of);
    if constexpr (knows_memory) out.moments = detail::memory_moments(out.timeline, out.layers, out.memory->total());
  }
  return out;
}

}  // namespace tessera
