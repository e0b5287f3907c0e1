#pragma once

#include <tessera/plan/fusion.hpp>
#include <tessera/plan/pass_order.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera {

/// How ranks share what belongs to the buckets of a model with an `optimizer_parallel` policy. Buckets go by their
/// number, and those that no rank shares have no axes and no places.
struct bucket_sharing {
  int level = 0;
  /// The axes along which ranks own slices of a bucket.
  std::vector<axis_set> axes{};
  /// The shared bucket in which each trainable parameter, or the one that it is tied to, lies; -1 for none.
  std::vector<int> bucket_of{};
  /// The place in memory where the whole values, and the whole gradients, of a bucket lie. Buckets that have a place in
  /// common take turns: a whole layer without either lies between their layers.
  std::vector<int> value_places{};
  std::vector<int> gradient_places{};
  /// The layers with parameters, in the order in which passes come to them.
  std::vector<layer_parameters> forward{};
  std::vector<layer_parameters> backward{};

  constexpr bool shares(int bucket) const { return level > 0 && axes[static_cast<std::size_t>(bucket)] != 0; }
  /// Whether the ranks that share a bucket have the sum of its gradients in slices only.
  constexpr bool scatters(int bucket) const { return level > 1 && shares(bucket); }

  /// Calls `f(bucket)` with the shared buckets of a layer; some may come more than once.
  template <class F>
  constexpr void for_buckets(layer_parameters const& layer, F f) const {
    for (int i = layer.first; i < layer.first + layer.count; ++i)
      if (const int b = bucket_of[static_cast<std::size_t>(i)]; b >= 0) f(b);
  }

  /// The buckets whose values a training step gathers, in order.
  constexpr std::vector<int> gathered() const {
    std::vector<int> list;
    std::vector<int> held(value_places.size(), -1);  // by place
    const auto need = [&](int bucket) {
      int& there = held[static_cast<std::size_t>(value_places[static_cast<std::size_t>(bucket)])];
      if (there != bucket) list.push_back(bucket);
      there = bucket;
    };
    for (auto const& layer : forward) for_buckets(layer, need);
    for (auto const& layer : backward) for_buckets(layer, need);
    return list;
  }
};

namespace detail {

/// Layers from the first to the last one that needs a bucket; `last` is -1 for none.
struct layer_span {
  int first = 0;
  int last = -1;
};

/// Places for buckets, -1 for those that no layer needs: one for each, or as few as can be where they take turns. (They
/// come in descending order of their last layers, but for those with tied parameters.)
constexpr std::vector<int> places(std::vector<layer_span> const& spans, bool take_turns) {
  std::vector<int> place_of(spans.size(), -1);
  std::vector<int> down_to;  // by place: the first layer of the last bucket that got it
  for (std::size_t b = 0; b < spans.size(); ++b) {
    if (spans[b].last < 0) continue;
    std::size_t p = 0;
    while (p < down_to.size() && !(take_turns && spans[b].last + 1 < down_to[p])) ++p;
    if (p == down_to.size()) down_to.push_back(0);
    down_to[p] = spans[b].first;
    place_of[b] = static_cast<int>(p);
  }
  return place_of;
}

}  // namespace detail

/// How ranks along `axes` share the buckets of a model. Passes come to its layers with parameters in the orders
/// `forward` and `backward`.
template <int Axes>
constexpr bucket_sharing share_buckets(std::vector<gradient_bucket> const& buckets,
                                       std::vector<parameter_info<Axes>> const& trainable, axis_set axes, int level,
                                       std::vector<layer_parameters> const& forward,
                                       std::vector<layer_parameters> const& backward) {
  bucket_sharing sharing;
  sharing.level = level;
  if (level == 0) return sharing;
  sharing.forward = forward;
  sharing.backward = backward;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  const auto owner_of = [&](int position) { return detail::first_of_tie(trainable, position); };
  sharing.bucket_of.assign(trainable.size(), -1);
  for (auto const& bucket : buckets) {
    const int number = static_cast<int>(sharing.axes.size());
    sharing.axes.push_back(static_cast<axis_set>(bucket.axes & axes));
    if (sharing.axes.back() == 0) continue;
    for (const int member : bucket.members) sharing.bucket_of[at(member)] = number;
  }
  for (int i = 0; i < static_cast<int>(trainable.size()); ++i)
    sharing.bucket_of[at(i)] = sharing.bucket_of[at(owner_of(i))];

  std::vector<detail::layer_span> values(buckets.size());
  std::vector<detail::layer_span> gradients(buckets.size());
  const auto extend = [](detail::layer_span& span, int layer) {
    span.first = span.last < 0 ? layer : std::min(span.first, layer);
    span.last = std::max(span.last, layer);
  };
  int number = 0;
  for (auto const& layer : sharing.forward) {
    for (int i = layer.first; i < layer.first + layer.count; ++i) {
      const int bucket = sharing.bucket_of[at(i)];
      if (bucket < 0) continue;
      extend(values[at(bucket)], number);
      if (owner_of(i) == i) extend(gradients[at(bucket)], number);
    }
    ++number;
  }
  sharing.value_places = detail::places(values, level == 3);
  // Gradients that are not scattered stay in their buckets.
  if (level > 1) sharing.gradient_places = detail::places(gradients, true);
  return sharing;
}
/// The same of a bound model.
template <class Bound>
constexpr bucket_sharing share_buckets(std::vector<gradient_bucket> const& buckets,
                                       std::vector<parameter_info<Bound::mesh::axes>> const& trainable, axis_set axes,
                                       int level) {
  std::vector<layer_parameters> forward;
  std::vector<layer_parameters> backward;
  if (level > 0) {
    int end = 0;
    detail::pass_order<Bound>::forward(forward, end);
    detail::pass_order<Bound>::backward(backward, end);
  }
  return share_buckets(buckets, trainable, axes, level, forward, backward);
}

}  // namespace tessera
