#pragma once

#include <tessera/plan/parallel.hpp>
#include <tessera/plan/pipeline.hpp>
#include <tessera/plan/priced_layers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera {

/// What the price of a step depends on beside the model, the mesh and the machine.
struct step_settings {
  index_t unknown =
      32;  ///< extents that only run time knows count as this: the rows of a batch, all its parts together
  index_t element_bytes = 4;
  int parts = 1;           ///< of a batch: micro-batches
  index_t remembered = 0;  ///< values that the optimizer keeps for each element (`values_per_element()`)
  bool overlap = true;     ///< whether reductions of gradients run beside backward
};

/// Seconds of a training step, as the device that has most to do sees them. Without the loss, and what the host does.
struct step_price {
  double forward = 0;    ///< kernels and collectives of all parts
  double backward = 0;   ///< the same
  double reduction = 0;  ///< reductions of gradients, whether or not anything hides them
  double exposed = 0;    ///< of these, what comes after backward
  double gathers = 0;    ///< gathers of parameters that ranks share (`optimizer_parallel`)
  double waiting = 0;    ///< of these, what passes wait for
  double update = 0;     ///< the optimizer's, by its bytes
  double bubble = 0;     ///< what the busiest device of a pipeline waits for others

  constexpr double total() const { return forward + backward + exposed + waiting + update + bubble; }
};

namespace detail {

/// The reductions, gathers and updates of the buckets of a bound model.
template <device_mesh Mesh>
struct priced_buckets {
  std::vector<gradient_bucket> const& buckets;
  bucket_sharing const& sharing;
  std::vector<parameter_info<Mesh::axes>> const& trainable;
  machine_description const& machine;
  mesh_costs<Mesh::axes> const& costs;
  step_settings const& settings;

  constexpr double bytes_of(int position) const {
    return static_cast<double>(trainable[static_cast<std::size_t>(position)].template local_size<Mesh>({}) *
                               settings.element_bytes);
  }
  constexpr double bytes(int bucket) const {
    double sum = 0;
    for (const int member : buckets[static_cast<std::size_t>(bucket)].members) sum += bytes_of(member);
    return sum;
  }
  constexpr axis_set owners(int bucket) const {
    return sharing.shares(bucket) ? sharing.axes[static_cast<std::size_t>(bucket)] : axis_set{0};
  }
  /// An all-reduce; where ranks keep slices a reduce-scatter among them, and an all-reduce of a slice among the others.
  constexpr double reduction(int bucket) const {
    const axis_set axes = buckets[static_cast<std::size_t>(bucket)].axes;
    if (!sharing.scatters(bucket)) return 2 * seconds_of(costs.bucket[axes], bytes(bucket));
    const axis_set slices = owners(bucket);
    return seconds_of(costs.gather[slices], bytes(bucket)) +
           2 * seconds_of(costs.gather[axes & ~slices], bytes(bucket) / Mesh::group_size(slices));
  }
  constexpr double gather(int bucket) const { return seconds_of(costs.gather[owners(bucket)], bytes(bucket)); }

  /// Values and gradients are read, values written, and what the optimizer remembers read and written, by one kernel
  /// for each parameter.
  constexpr double update() const {
    std::vector<int> parts_of(trainable.size(), 1);
    for (int b = 0; b < static_cast<int>(buckets.size()); ++b)
      for (const int member : buckets[static_cast<std::size_t>(b)].members)
        parts_of[static_cast<std::size_t>(member)] = Mesh::group_size(owners(b));
    double sum = 0;
    for (int i = 0; i < static_cast<int>(trainable.size()); ++i) {
      if (first_of_tie(trainable, i) != i) continue;
      const double moved =
          static_cast<double>(3 + 2 * settings.remembered) * bytes_of(i) / parts_of[static_cast<std::size_t>(i)];
      sum += machine.seconds(0, moved, settings.element_bytes, kernel_kind::update);
    }
    return sum;
  }
};

/// The gathers of parameters during passes. A pass waits for those of its layer.
template <device_mesh Mesh>
struct gathering {
  priced_buckets<Mesh> const& of;
  std::vector<int> held{};  // by place: the bucket that lies there
  double free = 0;          // when the last message beside the passes is done
  double seconds = 0;
  double waited = 0;

  /// Gathers what `layer` needs and the pass to it has not, from `from` on: when the memory is there. Returns when the
  /// pass may begin, at `now` or later.
  constexpr double until(priced_layer<Mesh::axes> const& layer, double from, double now) {
    if (of.sharing.level == 0) return now;
    held.resize(of.buckets.size(), -1);
    double ready = now;
    of.sharing.for_buckets({layer.first_parameter, layer.parameters}, [&](int bucket) {
      int& there = held[static_cast<std::size_t>(of.sharing.value_places[static_cast<std::size_t>(bucket)])];
      if (there == bucket) return;
      there = bucket;
      const double takes = of.gather(bucket);
      free = std::max(free, from) + takes;
      seconds += takes;
      ready = std::max(ready, free);
    });
    waited += ready - now;
    return ready;
  }
};

/// A step of layers on one device: forward, then backward with the reductions of buckets beside it.
///
/// All messages share one way. What a layer itself waits for goes first, and what is under way takes longer by it.
/// Reductions follow one another, each when the last gradient of its bucket exists. Gathers of parameters do too, each
/// from the pass before that of its layer on where buckets take turns in memory (level 3), as early as can be where
/// not. Only the last of several parts reduces, so nothing but its backward hides reductions; where ranks
/// have slices of gradients (levels 2 and 3) each part does, and hides its own.
template <device_mesh Mesh>
constexpr step_price simulate_step(priced_layers<Mesh::axes> const& layers, priced_buckets<Mesh> const& of) {
  step_price price;
  const int parts = of.settings.parts;
  const bool take_turns = of.sharing.level == 3;
  const auto row = [&](int i) -> auto const& { return layers.rows[static_cast<std::size_t>(i)]; };
  const int buckets = static_cast<int>(of.buckets.size());
  gathering<Mesh> gathers{of};
  double now = 0;
  double before = 0;  // when the pass before began
  for (auto const& layer : layers.rows) {
    const double begin = gathers.until(layer, take_turns ? before : 0, now);
    before = begin;
    now = begin + layer.forward;
    price.forward += layer.forward;
    if (gathers.free > begin) gathers.free += layer.forward_messages;
  }
  double& free = gathers.free;
  for (auto const& pass : layers.backward) {
    const double begin = gathers.until(row(pass.layer), before, now);
    before = begin;
    now = begin + pass.seconds;
    price.backward += pass.seconds;
    if (free > begin) free += pass.messages;
    if (!pass.gradients) continue;
    for (int b = 0; b < buckets; ++b) {
      const int last = of.buckets[static_cast<std::size_t>(b)].last - row(pass.layer).first_parameter;
      if (last < 0 || last >= row(pass.layer).parameters) continue;
      const double takes = of.reduction(b);
      price.reduction += takes;
      free = std::max(free, now) + takes;
    }
  }
  price.exposed = of.settings.overlap ? std::max(0.0, free - now) : price.reduction;
  price.gathers = gathers.seconds;
  price.waiting = gathers.waited;
  price.update = of.update();
  // Parts before the last one.
  price.forward *= parts;
  price.backward *= parts;
  if (take_turns) {
    price.gathers *= parts;
    price.waiting *= parts;
  }
  if (of.sharing.level > 1) {
    price.reduction *= parts;
    price.exposed *= parts;
  }
  return price;
}

/// A step of a pipeline of which each stage takes what `of_part` says for one part of the batch, messages to the next
/// one included.
template <pipeline_schedule Schedule>
constexpr step_price simulate_pipeline(std::vector<step_price> const& of_part, int parts) {
  const int devices = static_cast<int>(of_part.size()) / Schedule::chunks;
  const auto picoseconds = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e12); };
  const auto time =
      simulate(all_actions<Schedule>(devices, parts), [&](pipeline_action::pass kind, int number) {
        step_price const& p = of_part[static_cast<std::size_t>(number)];
        return picoseconds(kind == pipeline_action::pass::forward ? p.forward : p.backward);
      });
  step_price price;
  for (int device = 0; device < devices; ++device) {
    step_price here;
    for (int chunk = 0; chunk < Schedule::chunks; ++chunk) {
      step_price const& p = of_part[static_cast<std::size_t>(chunk * devices + device)];
      here.forward += p.forward * parts;
      here.backward += p.backward * parts;
      here.reduction += p.reduction;
      here.exposed += p.exposed;
      here.gathers += p.gathers;
      here.waiting += p.waiting;
      here.update += p.update;
    }
    if (here.forward + here.backward > price.forward + price.backward) {
      price.forward = here.forward;
      price.backward = here.backward;
    }
    price.reduction = std::max(price.reduction, here.reduction);
    price.exposed = std::max(price.exposed, here.exposed);
    price.gathers = std::max(price.gathers, here.gathers);
    price.waiting = std::max(price.waiting, here.waiting);
    price.update = std::max(price.update, here.update);
  }
  price.bubble = std::max(0.0, static_cast<double>(time.span) * 1e-12 - price.forward - price.backward);
  return price;
}

}  // namespace detail

/// The layers of a model of any kind, pipelined or not, with the parts of a batch as large as `settings` says.
template <class Model, device_mesh Mesh>
constexpr priced_layers<Mesh::axes> price_model(machine_description const& machine, mesh_costs<Mesh::axes> const& costs,
                                                step_settings const& settings) {
  using whole = plan<Model, Mesh>;
  const index_t rows = (settings.unknown + settings.parts - 1) / settings.parts;
  return price_layers<typename whole::bound>(machine, costs, {rows, settings.element_bytes}, whole::loss_layout, false,
                                             true);
}

template <class Model, device_mesh Mesh, computing_machine Machine>
constexpr priced_layers<Mesh::axes> price_model(step_settings const& settings = {}) {
  return price_model<Model, Mesh>(description_of<Machine>, costs_of<Mesh, Machine>, settings);
}

/// What a training step of a model takes on a machine. A constant for models of some tens of layers; for larger ones
/// call it at run time, or raise the compiler's limit.
///
/// The batch goes through in `parts` that are alike. In a pipeline they go through its stages as its schedule says,
/// each pass taking the time of its stage and of the message to the next one; `forward` and `backward` are then those
/// of the stages of the busiest device, `bubble` the rest of the step until the last pass ends, and reductions, updates
/// and gathers those of the stage in which they take longest.
template <class Model, device_mesh Mesh>
constexpr step_price price_step(machine_description const& machine, mesh_costs<Mesh::axes> const& costs,
                                step_settings const& settings) {
  const index_t element = settings.element_bytes;
  if constexpr (!pipelined_model<Model>) {
    using whole = plan<Model, Mesh>;
    const auto trainable = whole::trainable();
    const auto buckets = whole::buckets(element);
    const auto sharing = whole::sharing(element);
    return detail::simulate_step<Mesh>(price_model<Model, Mesh>(machine, costs, settings),
                                       {buckets, sharing, trainable, machine, costs, settings});
  } else {
    using line = pipeline_plan<Model, Mesh>;
    const index_t rows = (settings.unknown + settings.parts - 1) / settings.parts;
    std::vector<step_price> of_part(static_cast<std::size_t>(line::stages));
    step_settings one_part = settings;
    one_part.parts = 1;
    const auto one = [&]<int S>(std::integral_constant<int, S>) {
      using stage = typename line::template stage<S>;
      const auto trainable = stage::trainable();
      const auto buckets = stage::buckets(element);
      const auto sharing = stage::sharing(element);
      const auto layers = price_layers<typename stage::bound_type>(machine, costs, {rows, element}, stage::arriving,
                                                                   stage::returns_gradient, stage::last);
      step_price& price = of_part[static_cast<std::size_t>(S)];
      price = detail::simulate_step<Mesh>(layers, {buckets, sharing, trainable, machine, costs, one_part});
      const auto message = [&](placements<Mesh::axes> const& layout, auto const& extents) {
        return seconds_of(costs.message[line::axes],
                          largest_size(Mesh::value, layout, extents, rows) * static_cast<double>(element));
      };
      if constexpr (!stage::last) price.forward += message(stage::output::layout, stage::output::extents);
      if constexpr (stage::returns_gradient) price.backward += message(stage::leaving, stage::input::extents);
    };
    [&]<int... S>(std::integer_sequence<int, S...>) { (one(std::integral_constant<int, S>{}), ...); }
    (std::make_integer_sequence<int, line::stages>{});

    return detail::simulate_pipeline<typename line::schedule>(of_part, settings.parts);
  }
}
template <class Model, device_mesh Mesh, computing_machine Machine>
constexpr step_price price_step(step_settings const& settings = {}) {
  return price_step<Model, Mesh>(description_of<Machine>, costs_of<Mesh, Machine>, settings);
}

}  // namespace tessera
