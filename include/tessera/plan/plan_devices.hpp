#pragma once

#include <tessera/plan/search/device_planner.hpp>

namespace tessera {

//     device_plan plan_devices<Model, Input, Axes = 2>(machine_description const&, device_request const&);
//
//     const device_plan plan = plan_devices<model::resnet50<1000>, input<dynamic, 3, 224, 224>>(
//         machine::h100_server::about, {.devices = 64, .batch = 8192});

/// The plan of a serial model on so many devices of a machine: axes inside a stage and where they lie, stages of a
/// pipeline, micro-batches, level of `optimizer_parallel`, recomputation of blocks, and how each layer is cut. `Input`
/// is `input<...>` whose first extent is the batch, of all devices together: `dynamic`, and then `request.batch`, or
/// stated. `Axes` is the most axes of a stage's mesh.
///
/// All combinations are looked at: ordered factorizations of the devices of a stage, divisors of the devices as stages
/// (no more than the outermost chain has entries), divisors of the batch as parts, levels, and blocks recomputed or
/// not. For each the `planner` finds the splits of least time, the `request.plans` best, and of those that fit into the
/// memory of a device one of the fastest; the steps of these are simulated as `price_step` does, and the shortest wins.
/// Combinations whose lower bound is not below the best step so far, less `request.tolerance`, are left out.
/// Dimensions are not cut into more parts than they have elements. Steps are without the loss.
///
/// At most 4096 devices and 262144 samples.
///
/// Throws `error` where nothing fits into the memory, with the bytes that would do, and for a faulty machine, a request
/// that leaves no combination, and a layer that does not tell what it keeps.
template <class Model, class Input, int Axes = 2>
device_plan plan_devices(machine_description const& machine, device_request const& request) {
  static_assert(Axes >= 1 && Axes <= 4, "tessera: plan_devices plans for 1 to 4 mesh axes; name one of these");
  // A dynamic batch is priced as one of so many samples, of which an axis more than the mesh has takes the rest away:
  // the product of all axes is an int.
  constexpr index_t unknown = index_t{1} << 18;
  constexpr int most_devices = 1 << 12;
  static constexpr auto extents = [] {
    auto all = Input::extents;
    if (all[0] == dynamic) all[0] = unknown;
    return all;
  }();
  const index_t stated = Input::extents[0] == dynamic ? 0 : extents[0];
  if (stated != 0 && request.batch != 0 && request.batch != stated)
    throw error("a request for batches of " + std::to_string(request.batch) + ", of a model with an input of " +
                    std::to_string(stated),
                "one of both", "leave the batch of the request out, or that of the input as `dynamic`");
  const index_t batch = stated != 0 ? stated : request.batch;
  if (batch > unknown)
    throw error("a batch of " + std::to_string(batch) + " samples", std::to_string(unknown) + " at the most",
                "choose a smaller one");
  if (request.devices > most_devices)
    throw error("a request for " + std::to_string(request.devices) + " devices",
                std::to_string(most_devices) + " at the most", "ask for fewer");
  return detail::device_planner<Axes>(
             machine, request, batch,
             [&](mesh_sizes<Axes> const& mesh, machine_description const& on, index_t rows) {
               detail::device_setting<Axes> setting{mesh, on, request.element_bytes, 1, rows};
               setting.parts = static_cast<int>((extents[0] + rows - 1) / rows);
               return detail::device_graph_builder<Axes>(setting).template build<Model, extents>();
             })
      .best();
}

}  // namespace tessera
