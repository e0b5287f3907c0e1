#pragma once

#include <tessera/core/memory.hpp>
#include <tessera/plan/activation_memory.hpp>
#include <tessera/plan/parallel.hpp>
#include <tessera/plan/pipeline.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tessera {

/// Bytes of tensors that a rank needs to train, as `host_memory::used()` counts them: each tensor in whole pieces of
/// `host_memory::alignment`. (Memory that ranks of a host share for reductions, which whole buckets lie in unless it is
/// switched off, is not counted there.)
struct training_bytes {
  index_t parameters = 0;   ///< and states
  index_t gradients = 0;    ///< buckets, and gradients without one
  index_t optimizer = 0;    ///< what it remembers
  index_t accumulated = 0;  ///< sums of gradients, from the first step on that comes in parts
  index_t activations = 0;  ///< what layers keep for backward, of all passes that are under way at one time
  index_t workspace = 0;    ///< what else a step has at one time, or a little more
  int parts = 1;            ///< in which the batch of a step comes

  /// What is there from step to step, without `accumulated`.
  constexpr index_t total() const { return parameters + gradients + optimizer; }
  /// The most of a step: bounds `host_memory::used().peak`, but for what kernels and the loss keep for themselves.
  constexpr index_t peak() const { return total() + (parts > 1 ? accumulated : 0) + activations + workspace; }
};

namespace detail {

/// Bytes of places in which buckets of these elements take turns; those without a place (-1) take none.
template <class T>
constexpr index_t place_bytes(std::vector<int> const& places, std::vector<index_t> const& elements) {
  std::vector<index_t> most(places.size(), 0);
  for (std::size_t b = 0; b < places.size(); ++b)
    if (places[b] >= 0) {
      index_t& here = most[static_cast<std::size_t>(places[b])];
      here = std::max(here, elements[b]);
    }
  index_t bytes = 0;
  for (const index_t size : most) bytes += block_bytes(size, sizeof(T));
  return bytes;
}

/// What the layers of a plan, or of a stage of it, keep from step to step. An optimizer remembers nothing of parameters
/// that are `copies` of those of other stages.
template <class Mesh, class T>
constexpr training_bytes kept_from_step_to_step(std::vector<parameter_info<Mesh::axes>> const& all,
                                                std::vector<gradient_bucket> const& buckets,
                                                bucket_sharing const& sharing, index_t remembered,
                                                decltype(Mesh::sizes) const& at,
                                                std::vector<void const*> const& copies = {}) {
  std::vector<parameter_info<Mesh::axes>> trainable;
  training_bytes sum;
  const auto bytes = [](index_t elements) { return block_bytes(elements, sizeof(T)); };
  for (auto const& p : all) {
    if (p.trainable)
      trainable.push_back(p);
    else
      sum.parameters += bytes(p.template local_size<Mesh>(at));
  }
  const auto size_of = [&](int i) { return trainable[static_cast<std::size_t>(i)].template local_size<Mesh>(at); };
  const auto is_copy = [&](int i) {
    void const* const tie = trainable[static_cast<std::size_t>(i)].tie;
    return tie != nullptr && std::find(copies.begin(), copies.end(), tie) != copies.end();
  };

  std::vector<char> in_bucket(trainable.size(), 0);
  std::vector<index_t> sizes;
  for (int b = 0; b < static_cast<int>(buckets.size()); ++b) {
    const bool shares = sharing.shares(b);
    index_t size = 0;
    for (const int i : buckets[static_cast<std::size_t>(b)].members) {
      in_bucket[static_cast<std::size_t>(i)] = 1;
      size += size_of(i);
    }
    sizes.push_back(size);
    const axis_set owners = shares ? sharing.axes[static_cast<std::size_t>(b)] : axis_set{0};
    const interval slice = cut({0, size}, Mesh::group_size(owners), Mesh::group_rank(owners, at));
    index_t begin = 0;
    for (const int i : buckets[static_cast<std::size_t>(b)].members) {
      const index_t mine = intersect({begin, size_of(i)}, slice).size;
      begin += size_of(i);
      if (!is_copy(i)) sum.optimizer += remembered * bytes(mine);
      if (!shares) sum.parameters += bytes(size_of(i));
      if (!sharing.scatters(b)) sum.accumulated += bytes(size_of(i));
    }
    if (shares && sharing.level == 3) sum.parameters += bytes(slice.size);
    sum.gradients += bytes(sharing.scatters(b) ? slice.size : size);
    if (sharing.scatters(b)) sum.accumulated += bytes(slice.size);
  }
  if (sharing.level > 0) {
    sum.parameters += place_bytes<T>(sharing.value_places, sizes);
    sum.gradients += place_bytes<T>(sharing.gradient_places, sizes);
  }
  for (int i = 0; i < static_cast<int>(trainable.size()); ++i) {
    if (in_bucket[static_cast<std::size_t>(i)] != 0) continue;
    sum.gradients += bytes(size_of(i));
    if (first_of_tie(trainable, i) != i) continue;
    sum.parameters += bytes(size_of(i));
    if (!is_copy(i)) sum.optimizer += remembered * bytes(size_of(i));
    sum.accumulated += bytes(size_of(i));
  }
  return sum;
}

constexpr training_bytes& operator+=(training_bytes& sum, training_bytes const& more) {
  sum.parameters += more.parameters;
  sum.gradients += more.gradients;
  sum.optimizer += more.optimizer;
  sum.accumulated += more.accumulated;
  return sum;
}

/// The memory of the stages of a device of a pipeline.
template <class Model, class Mesh, class T>
class stages_on_paper {
  using pipe = pipeline_plan<Model, Mesh>;
  using whole = plan<Model, Mesh>;
  using coordinates_type = decltype(Mesh::sizes);
  template <int S>
  using stage = typename pipe::template stage<S>;
  static constexpr int last = pipe::stages - 1;

 public:
  static constexpr training_bytes parameters(index_t remembered, coordinates_type const& at) {
    training_bytes sum;
    const auto ties = pipe::ties();
    for_stages_of(at, [&]<int S>(std::integral_constant<int, S>) {
      std::vector<parameter_info<Mesh::axes>> list;
      stage<S>::bound_type::append_parameters(list);
      std::vector<void const*> copies;
      for (auto const& t : ties)
        if (t.sharer == S) copies.push_back(t.tie);
      sum += kept_from_step_to_step<Mesh, T>(list, stage<S>::buckets(sizeof(T)), stage<S>::sharing(sizeof(T)),
                                             remembered, at, copies);
    });
    return sum;
  }

  /// The activations of all passes that are under way at one time in a step of so many parts, each with an input of
  /// these extents, and what else the step has: what runs, gradients of the loss, and messages.
  template <auto Extents>
  static constexpr activation_bytes passes(coordinates_type const& at, int parts) {
    const int device = at[static_cast<std::size_t>(pipe::axis)];
    std::vector<index_t> kept(static_cast<std::size_t>(pipe::schedule::chunks), 0);
    index_t workspace = 0;
    index_t messages = 0;
    for_stages_of(at, [&]<int S>(std::integral_constant<int, S>) {
      constexpr auto extents = whole_on_paper<Extents>::template extents<stage<S>::begin>;
      using model = typename stage<S>::bound_type;
      constexpr auto result = S == last ? whole::loss_layout : model::output::layout;
      const auto one = passes_on_paper<model, extents, T, result, stage<S>::arriving, stage<S>::returns_gradient>(at);
      kept[static_cast<std::size_t>(pipe::chunk_of(S))] = one.kept;
      workspace = std::max(workspace, one.workspace());
      // What has been sent of passes that are under way here or in the stage before, and what comes next.
      constexpr auto out = on_paper<model, extents, T>::output;
      const index_t y = local_bytes<Mesh>(result, out, at, sizeof(T));
      const index_t dy = local_bytes<Mesh>(stage<S>::arriving, out, at, sizeof(T));
      messages += live(pipe::device_of(S), parts) * (S == last ? dy : y) + dy;
      if constexpr (S > 0) {
        messages += local_bytes<Mesh>(model::input::layout, extents, at, sizeof(T));
        if constexpr (stage<S>::returns_gradient)
          messages +=
              live(pipe::device_of(S - 1), parts) * local_bytes<Mesh>(stage<S>::leaving, extents, at, sizeof(T));
      }
    });
    index_t now = 0;
    activation_bytes bytes;
    for (pipeline_action const& a : pipe::schedule::actions(pipe::devices, device, parts)) {
      const index_t of_pass = kept[static_cast<std::size_t>(a.chunk)];
      now += a.kind == pipeline_action::pass::forward ? of_pass : -of_pass;
      bytes.kept = std::max(bytes.kept, now);
    }
    bytes.peak = bytes.kept + workspace + messages;
    return bytes;
  }

 private:
  template <auto Extents>
  using whole_on_paper = on_paper<typename whole::bound, Extents, T>;

  static constexpr index_t live(int device, int parts) { return pipe::peak_live(device, parts); }

  template <class F>
  static constexpr void for_stages_of(coordinates_type const& at, F f) {
    const int device = at[static_cast<std::size_t>(pipe::axis)];
    [&]<int... S>(std::integer_sequence<int, S...>) {
      ((pipe::device_of(S) == device ? f(std::integral_constant<int, S>{}) : void()), ...);
    }
    (std::make_integer_sequence<int, pipe::stages>{});
  }
};

/// In place of the extents of an input: activations are not counted.
struct no_activations {};

}  // namespace detail

/// What a network of `Model` and a trainer with this optimizer keep on the rank at `at`. A constant:
///
///     static_assert(training_memory<model, world>(adam{}).optimizer < 1'000'000);
///     static_assert(training_memory<model, world, float, input<32, 784>>(adam{}).peak() < 9'000'000);
///
/// With n elements of parameters in buckets that P ranks share (`optimizer_parallel`), an optimizer of k values an
/// element, and R the elements of the places in which buckets take turns (two of the largest bucket where each layer is
/// smaller than a bucket), elements are, up to the rounding of each tensor and of uneven slices:
///
/// | level | parameters | gradients | optimizer | accumulated |
/// |---|---|---|---|---|
/// | 0 | n | n | k n | n |
/// | 1 | n | n | k n / P | n |
/// | 2 | n | n / P + R | k n / P | n / P |
/// | 3 | n / P + R | n / P + R | k n / P | n / P |
///
/// A layer whose parameter is `tied` to that of another one has a gradient of its own, and the bucket of such a
/// parameter shares its place with no other in level 3.
///
/// `activations` and `workspace` are counted where `Input` names the extents of a batch on all devices together, or of
/// one part of it where a step takes `parts` of them (see `activation_memory`). Ranks of a pipeline hold the parameters
/// of their stages, and the activations of as many passes as their schedule has under way; `workspace` has the messages
/// between stages too.
template <class Model, device_mesh Mesh, class T = float, class Input = detail::no_activations, class Optimizer>
constexpr training_bytes training_memory(Optimizer const& optimizer, decltype(Mesh::sizes) const& at = {},
                                         int parts = 1) {
  using plan_type = plan<Model, Mesh>;
  constexpr bool counts_activations = !std::is_same_v<Input, detail::no_activations>;
  const index_t remembered = optimizer.values_per_element();
  training_bytes sum;
  [[maybe_unused]] activation_bytes passes;
  if constexpr (pipelined_model<Model>) {
    using stages = detail::stages_on_paper<Model, Mesh, T>;
    sum = stages::parameters(remembered, at);
    if constexpr (counts_activations) passes = stages::template passes<Input::extents>(at, parts);
  } else {
    sum = detail::kept_from_step_to_step<Mesh, T>(plan_type::parameters(), plan_type::buckets(sizeof(T)),
                                                  plan_type::sharing(sizeof(T)), remembered, at);
    if constexpr (counts_activations) passes = activation_memory<Model, Mesh, T, Input>(at);
  }
  if constexpr (counts_activations) {
    sum.activations = passes.kept;
    sum.workspace = passes.workspace();
  }
  sum.parts = parts;
  return sum;
}

}  // namespace tessera
