#pragma once

#include <tessera/plan/fusion.hpp>
#include <tessera/plan/pass_order.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tessera {

/// How ranks share what belongs to the buckets of a model with an `optimizer_parallel` policy. Buckets go by their number,
/// and those that no rank shares have no axes and no places.
struct bucket_sharing {
  /// A layer with parameters, and the buckets in which these lie.
  struct step {
    int first = 0;  ///< the first of its trainable parameters
    std::vector<int> buckets{};
  };

  int level = 0;
  /// The axes along which ranks own slices of a bucket.
  std::vector<axis_set> axes{};
  /// The place in memory where the whole values, and the whole gradients, of a bucket lie. Buckets that have a place in
  /// common take turns: a whole layer without either lies between their layers.
  std::vector<int> value_places{};
  std::vector<int> gradient_places{};
  /// The layers in the order in which passes come to them.
  std::vector<step> forward{};
  std::vector<step> backward{};

  constexpr bool shares(int bucket) const { return level > 0 && axes[static_cast<std::size_t>(bucket)] != 0; }
  /// Whether the ranks that share a bucket have the sum of its gradients in slices only.
  constexpr bool scatters(int bucket) const { return level > 1 && shares(bucket); }

  /// The buckets whose values a training step gathers, in order.
  constexpr std::vector<int> gathered() const {
    std::vector<int> list;
    std::vector<int> held(value_places.size(), -1);
    for (auto const* pass : {&forward, &backward})
      for (step const& s : *pass)
        for (const int b : s.buckets) {
          int& there = held[static_cast<std::size_t>(value_places[static_cast<std::size_t>(b)])];
          if (there != b) list.push_back(b);
          there = b;
        }
    return list;
  }
};

namespace detail {

/// Layers from the first to the last one that needs a bucket; `last` is -1 for none.
struct layer_span {
  int first = 0;
  int last = -1;
};

/// Places for buckets that take turns, which come in descending order of their last layers but for tied ones.
constexpr std::vector<int> take_turns(std::vector<layer_span> const& spans) {
  std::vector<int> places(spans.size(), -1);
  std::vector<int> down_to;  // by place: the first layer of the last bucket that got it
  for (std::size_t b = 0; b < spans.size(); ++b) {
    if (spans[b].last < 0) continue;
    std::size_t p = 0;
    while (p < down_to.size() && spans[b].last + 1 >= down_to[p]) ++p;
    if (p == down_to.size()) down_to.push_back(0);
    down_to[p] = spans[b].first;
    places[b] = static_cast<int>(p);
  }
  return places;
}

/// A place of its own for each bucket.
constexpr std::vector<int> own_places(std::vector<layer_span> const& spans) {
  std::vector<int> places(spans.size(), -1);
  int next = 0;
  for (std::size_t b = 0; b < spans.size(); ++b)
    if (spans[b].last >= 0) places[b] = next++;
  return places;
}

}  // namespace detail

/// How ranks along `axes` share the buckets of a bound model.
template <class Bound>
constexpr bucket_sharing share_buckets(std::vector<gradient_bucket> const& buckets,
                                       std::vector<parameter_info<Bound::mesh::axes>> const& trainable, axis_set axes,
                                       int level) {
  bucket_sharing sharing{level};
  if (level == 0) return sharing;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<int> bucket_of(trainable.size(), -1);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    sharing.axes.push_back(static_cast<axis_set>(buckets[b].axes & axes));
    if (sharing.axes[b] == 0) continue;
    for (const int member : buckets[b].members) bucket_of[at(member)] = static_cast<int>(b);
  }
  std::vector<layer_parameters> forward;
  std::vector<layer_parameters> backward;
  int next = 0;
  detail::pass_order<Bound>::forward(forward, next);
  detail::pass_order<Bound>::backward(backward, next);

  std::vector<detail::layer_span> values(buckets.size());
  std::vector<detail::layer_span> gradients(buckets.size());
  const auto extend = [](detail::layer_span& span, int layer) {
    span.first = span.last < 0 ? layer : std::min(span.first, layer);
    span.last = std::max(span.last, layer);
  };
  const auto owner_of = [&](int position) { return detail::first_of_tie(trainable, position); };
  for (std::size_t layer = 0; layer < forward.size(); ++layer)
    for (int i = forward[layer].first; i < forward[layer].first + forward[layer].count; ++i) {
      const int bucket = bucket_of[at(owner_of(i))];
      if (bucket < 0) continue;
      extend(values[at(bucket)], static_cast<int>(layer));
      if (owner_of(i) == i) extend(gradients[at(bucket)], static_cast<int>(layer));
    }
  sharing.value_places = level == 3 ? detail::take_turns(values) : detail::own_places(values);
  sharing.gradient_places = level > 1 ? detail::take_turns(gradients) : std::vector<int>(buckets.size(), -1);

  const auto steps_of = [&](std::vector<layer_parameters> const& order) {
    std::vector<bucket_sharing::step> steps;
    for (auto const& layer : order) {
      steps.push_back({layer.first, {}});
      auto& needed = steps.back().buckets;
      for (int i = layer.first; i < layer.first + layer.count; ++i)
        if (const int b = bucket_of[at(owner_of(i))];
            b >= 0 && std::find(needed.begin(), needed.end(), b) == needed.end())
          needed.push_back(b);
    }
    return steps;
  };
  sharing.forward = steps_of(forward);
  sharing.backward = steps_of(backward);
  return sharing;
}

}  // namespace tessera
