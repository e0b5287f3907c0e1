#pragma once

#include <tessera/plan/device_plan.hpp>
#include <tessera/plan/search/planned_stage.hpp>
#include <tessera/plan/step_price.hpp>
#include <tessera/plan/training_memory.hpp>

#include <string>

namespace tessera::detail {

/// A step of a planned stage: seconds of one part, or of all where there is one stage, and the bytes of a device.
struct stage_step {
  step_price price{};
  device_memory memory{};
  double messages = 0;  ///< of forward and backward of one part: seconds of collectives
  int buckets = 0;
  std::string fusion{};
};

/// How gradients are put together, of all policies that are tried.
template <int Axes>
std::vector<std::pair<std::string, std::vector<gradient_bucket>>> bucket_choices(
    planned_stage<Axes> const& stage, std::vector<parameter_info<Axes>> const& trainable, mesh_costs<Axes> const& costs,
    index_t element_bytes, bool in_slices) {
  using mesh = run_mesh<Axes>;
  std::vector<index_t> times(trainable.size(), 0);
  double now = 0;
  for (priced_pass const& pass : stage.layers.backward) {
    now += pass.seconds - pass.messages;
    if (!pass.gradients) continue;
    auto const& row = stage.layers.rows[static_cast<std::size_t>(pass.layer)];
    for (int i = row.first_parameter; i < row.first_parameter + row.parameters; ++i)
      times[static_cast<std::size_t>(i)] = static_cast<index_t>(now * 1e12);
  }
  return {
      {"automatic", fuse_gradients<mesh>(trainable, element_bytes, times, in_slices, costs)},
      {"bytes<4 MiB>", fuse_gradients<mesh, fuse::bytes<(index_t{4} << 20)>>(trainable, element_bytes, in_slices)},
      {"bytes<32 MiB>", fuse_gradients<mesh, fuse::bytes<(index_t{32} << 20)>>(trainable, element_bytes, in_slices)}};
}

/// Calls `f` with an element of a size that is known at run time.
template <class F>
auto with_element(index_t bytes, F f) {
  if (bytes == 8) return f(double{});
  if (bytes == 2) return f(std::int16_t{});
  return f(float{});
}

/// Simulates a stage with each choice of buckets; the best one that fits into `most_bytes` counts, or the smallest.
template <int Axes>
stage_step simulate_stage(device_graph<Axes> const& graph, planned_stage<Axes> const& stage, device_terms const& terms,
                          step_settings const& settings, index_t messages_kept, index_t most_bytes) {
  using mesh = run_mesh<Axes>;
  const typename mesh::scope scope(graph.mesh);
  const index_t element = graph.element_bytes;
  std::vector<parameter_info<Axes>> trainable;
  for (auto const& p : stage.parameters)
    if (p.trainable) trainable.push_back(p);
  stage_step best;
  bool found = false;
  for (auto const& choice : bucket_choices(stage, trainable, graph.costs, element, terms.level > 0)) {
    std::vector<gradient_bucket> const& buckets = choice.second;
    const bucket_sharing sharing =
        share_buckets(buckets, trainable, graph.mesh.cutting(mesh::all), terms.level, stage.forward, stage.backward);
    stage_step here;
    here.price = simulate_step<mesh>(stage.layers, {buckets, sharing, trainable, graph.machine, graph.costs, settings});
    here.buckets = static_cast<int>(buckets.size());
    here.fusion = choice.first;
    device_memory& m = here.memory;
    with_element(element, [&](auto one) {
      using T = decltype(one);
      const training_bytes kept =
          kept_from_step_to_step<mesh, T>(stage.parameters, buckets, sharing, terms.remembered, {});
      std::vector<index_t> sizes;
      for (auto const& bucket : buckets) {
        sizes.push_back(0);
        for (const int i : bucket.members)
          sizes.back() += trainable[static_cast<std::size_t>(i)].template local_size<mesh>({});
      }
      const index_t values = terms.level > 0 ? place_bytes<T>(sharing.value_places, sizes) : 0;
      const index_t gradients = terms.level > 0 ? place_bytes<T>(sharing.gradient_places, sizes) : 0;
      // Below level 3 the places of values are where they stay.
      const index_t turning = terms.level == 3 ? values : 0;
      m.parameters = kept.parameters - turning;
      m.gradients = kept.gradients - gradients + (terms.parts > 1 ? kept.accumulated : 0);
      m.optimizer = kept.optimizer;
      m.buckets = turning + gradients;
    });
    m.activations = terms.live * stage.kept;
    m.workspace = stage.scratch + stage.again + messages_kept;
    const bool fits = m.total() <= most_bytes;
    const bool best_fits = best.memory.total() <= most_bytes;
    if (!found || (fits && !best_fits) ||
        (fits == best_fits && (fits ? here.price.total() < best.price.total() : m.total() < best.memory.total()))) {
      best = here;
      found = true;
    }
  }
  for (auto const& row : stage.layers.rows) best.messages += row.forward_messages;
  for (auto const& pass : stage.layers.backward) best.messages += pass.messages;
  return best;
}

}  // namespace tessera::detail
