#pragma once

#include <tessera/plan/step_price.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera {

/// Something that a step does, in seconds from its beginning. Passes of layers that take no time are parts too.
struct timed_part {
  enum class kind : std::uint8_t { forward, backward, messages, gather, reduction, update };
  kind what{};
  int of = 0;  ///< the row of the layer (`price_model`); of a reduction the bucket
  double begin = 0;
  double end = 0;
};

namespace detail {

/// The parts of the step that `simulate_step` prices, by the same rules: of several parts of a batch the last one.
template <device_mesh Mesh>
std::vector<timed_part> trace_step(priced_layers<Mesh::axes> const& layers, priced_buckets<Mesh> const& of) {
  using kind = timed_part::kind;
  std::vector<timed_part> parts;
  const bool take_turns = of.sharing.level == 3;
  gathering<Mesh> gathers{of};
  double now = 0;
  double before = 0;  // when the pass before began
  const auto add = [&](kind what, int row, double begin, double seconds) {
    const bool is_pass = what == kind::forward || what == kind::backward;
    if (is_pass || seconds > 0) parts.push_back({what, row, begin, begin + seconds});
  };
  const auto is_beside = [](timed_part const& part) {
    return part.what == kind::reduction || part.what == kind::gather;
  };
  // What a layer waits for stops messages beside the passes for so long.
  const auto interrupt = [&](double begin, double seconds) {
    if (gathers.free <= begin) return;
    for (auto& part : parts) {
      if (!is_beside(part) || part.end <= begin) continue;
      if (part.begin >= begin) part.begin += seconds;
      part.end += seconds;
    }
    gathers.free += seconds;
  };
  const auto pass = [&](kind what, int row, double seconds, double messages) {
    auto const& layer = layers.rows[static_cast<std::size_t>(row)];
    const double gathered = gathers.seconds;
    const double begin = gathers.until(layer, take_turns || what == kind::backward ? before : 0, now);
    add(kind::gather, row, gathers.free - (gathers.seconds - gathered), gathers.seconds - gathered);
    before = begin;
    add(kind::messages, row, begin, messages);
    add(what, row, begin + messages, seconds - messages);
    now = begin + seconds;
    interrupt(begin, messages);
  };
  for (int i = 0; i < static_cast<int>(layers.rows.size()); ++i) {
    auto const& row = layers.rows[static_cast<std::size_t>(i)];
    pass(kind::forward, i, row.forward, row.forward_messages);
  }
  std::vector<int> later;  // reductions that nothing hides
  const auto reduce = [&](int bucket) {
    const double takes = of.reduction(bucket);
    const double begin = std::max(gathers.free, now);
    add(kind::reduction, bucket, begin, takes);
    gathers.free = begin + takes;
  };
  for (auto const& part : layers.backward) {
    pass(kind::backward, part.layer, part.seconds, part.messages);
    if (!part.gradients) continue;
    auto const& row = layers.rows[static_cast<std::size_t>(part.layer)];
    for (int b = 0; b < static_cast<int>(of.buckets.size()); ++b) {
      const int last = of.buckets[static_cast<std::size_t>(b)].last - row.first_parameter;
      if (last < 0 || last >= row.parameters) continue;
      if (of.settings.overlap)
        reduce(b);
      else
        later.push_back(b);
    }
  }
  for (const int bucket : later) reduce(bucket);
  add(kind::update, 0, std::max(now, gathers.free), of.update());
  return parts;
}

}  // namespace detail

/// What a step of a model without a pipeline does when, as its busiest device does it: the parts that `price_step` adds
/// up. Of a batch that comes in several parts it is the last one. Layers wait for their own messages; reductions and
/// gathers go on beside them.
template <class Model, device_mesh Mesh>
std::vector<timed_part> step_timeline(machine_description const& machine, mesh_costs<Mesh::axes> const& costs,
                                      step_settings const& settings) {
  static_assert(!pipelined_model<Model>,
                "tessera: the stages of a pipeline run at the same time on different devices, so there is no one "
                "timeline of a step; ask price_step for its bubble");
  using whole = plan<Model, Mesh>;
  const auto trainable = whole::trainable();
  const auto buckets = whole::buckets(settings.element_bytes);
  const auto sharing = whole::sharing(settings.element_bytes);
  return detail::trace_step<Mesh>(price_model<Model, Mesh>(machine, costs, settings),
                                  {buckets, sharing, trainable, machine, costs, settings});
}
template <class Model, device_mesh Mesh, computing_machine Machine>
std::vector<timed_part> step_timeline(step_settings const& settings = {}) {
  return step_timeline<Model, Mesh>(description_of<Machine>, costs_of<Mesh, Machine>, settings);
}

}  // namespace tessera
