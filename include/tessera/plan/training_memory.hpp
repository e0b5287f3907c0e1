#pragma once

#include <tessera/core/memory.hpp>
#include <tessera/plan/parallel.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera {

/// Bytes of tensors that a rank keeps from step to step, as `host_memory::used()` counts them: each tensor in whole
/// pieces of `host_memory::alignment`. (Memory that ranks of a host share for reductions, which whole buckets lie in
/// unless it is switched off, is not counted there.)
struct training_bytes {
  index_t parameters = 0;  ///< and states
  index_t gradients = 0;
  index_t optimizer = 0;    ///< what it remembers
  index_t accumulated = 0;  ///< sums of gradients, from the first step on that comes in parts

  /// Without `accumulated`.
  constexpr index_t total() const { return parameters + gradients + optimizer; }
};

namespace detail {

/// Bytes of a tensor of so many elements.
template <class T>
constexpr index_t tensor_bytes(index_t elements) {
  constexpr auto piece = static_cast<index_t>(host_memory::alignment);
  return (elements * static_cast<index_t>(sizeof(T)) + piece - 1) / piece * piece;
}

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
  for (const index_t size : most) bytes += tensor_bytes<T>(size);
  return bytes;
}

}  // namespace detail

/// What a network of `Model` and a trainer with this optimizer keep on the rank at `at`. A constant:
///
///     static_assert(training_memory<model, world>(adam{}).optimizer < 1'000'000);
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
template <class Model, device_mesh Mesh, class T = float, class Optimizer>
constexpr training_bytes training_memory(Optimizer const& optimizer, decltype(Mesh::sizes) const& at = {}) {
  static_assert(
      !pipelined_model<Model>,
      "tessera: training_memory counts all layers of a model, and ranks of a pipeline have those of their stages; "
      "leave the pipeline out, or ask host_memory::used()");
  using plan_type = plan<Model, Mesh>;
  const auto trainable = plan_type::trainable();
  const auto buckets = plan_type::buckets(sizeof(T));
  const auto sharing = plan_type::sharing(sizeof(T));
  const index_t remembered = optimizer.values_per_element();
  const auto size_of = [&](int i) { return trainable[static_cast<std::size_t>(i)].template local_size<Mesh>(at); };
  const auto bytes = [](index_t elements) { return detail::tensor_bytes<T>(elements); };
  training_bytes sum;

  for (auto const& p : plan_type::parameters())
    if (!p.trainable) sum.parameters += bytes(p.template local_size<Mesh>(at));
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
      sum.optimizer += remembered * bytes(mine);
      if (!shares) sum.parameters += bytes(size_of(i));
      if (!sharing.scatters(b)) sum.accumulated += bytes(size_of(i));
    }
    if (shares && sharing.level == 3) sum.parameters += bytes(slice.size);
    sum.gradients += bytes(sharing.scatters(b) ? slice.size : size);
    if (sharing.scatters(b)) sum.accumulated += bytes(slice.size);
  }
  if (sharing.level > 0) {
    sum.parameters += detail::place_bytes<T>(sharing.value_places, sizes);
    sum.gradients += detail::place_bytes<T>(sharing.gradient_places, sizes);
  }
  for (int i = 0; i < static_cast<int>(trainable.size()); ++i) {
    if (in_bucket[static_cast<std::size_t>(i)] != 0) continue;
    sum.gradients += bytes(size_of(i));
    if (detail::first_of_tie(trainable, i) != i) continue;
    sum.parameters += bytes(size_of(i));
    sum.optimizer += remembered * bytes(size_of(i));
    sum.accumulated += bytes(size_of(i));
  }
  return sum;
}

}  // namespace tessera
