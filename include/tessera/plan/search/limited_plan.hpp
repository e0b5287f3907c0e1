#pragma once

#include <tessera/plan/search/limited_found.hpp>

namespace tessera {

// What the error says where nothing fits a memory limit.

/// So many bytes fewer than any plan keeps on the device with the largest blocks.
template <index_t Bytes>
struct missing;
/// The least limit that a plan fits.
template <index_t Bytes>
struct nearest_limit;
/// The layer that keeps most in that plan, and how much.
template <class Layer, index_t Bytes>
struct largest_layer;

template <class Missing, class Nearest, class Largest>
struct no_plan_fits {
  static_assert(
      std::is_void_v<Missing>,
      "tessera: no plan of this model fits the memory limit; no_plan_fits<...> names the missing bytes, the "
      "nearest limit that a plan fits, and the layer that keeps most in it: raise the limit to that, use more "
      "devices, recompute blocks, or choose a smaller batch");
};

namespace detail {

/// The layer of a step.
template <class Node, int I>
struct layer_of_step {
  using type = Node;
};
template <int I, class... Layers>
struct layer_of_steps {
  using type = void;
};
template <int I, class Layer, class... Rest>
requires(I < step_count<Layer>) struct layer_of_steps<I, Layer, Rest...> : layer_of_step<Layer, I> {
};
template <int I, class Layer, class... Rest>
requires(I >= step_count<Layer>) struct layer_of_steps<I, Layer, Rest...>
    : layer_of_steps<I - step_count<Layer>, Rest...> {
};
template <class... Layers, int I>
struct layer_of_step<chain<Layers...>, I> : layer_of_steps<I, bare<Layers>...> {};
template <class Layer, int I>
struct layer_of_step<recompute<Layer>, I> : layer_of_step<bare<Layer>, I - 2> {};
template <class Branch, class Shortcut, int I>
struct layer_of_step<residual<Branch, Shortcut>, I>
    : std::conditional_t<(I < 2 + step_count<bare<Branch>>), layer_of_step<bare<Branch>, I - 2>,
                         layer_of_step<bare<Shortcut>, I - 3 - step_count<bare<Branch>>>> {};

/// The plan of least time whose layers keep no more than `Limit` bytes, exactly: see `plan_labels`.
template <class Problem, class Model, class Input, index_t Limit, index_t Copies, auto Ties>
struct limited_plan {
  template <std::size_t I>
  using steps = limited_model<Problem, Model, Input, Copies, Ties[I]>;
  template <std::size_t I>
  using dual = typename limit_dual<steps<I>, Limit>::type;
  template <std::size_t I>
  static constexpr auto bound = static_cast<search_time>(dual<I>::bound);
  template <std::size_t I>
  using smallest_of = typename decltype(find_smallest<steps<I>, 0>())::type;
  /// Routes lead from every layout to every other, so layers are free to be cut as they keep least: the least bytes of
  /// the first pass are those of a plan.
  template <std::size_t I>
  static constexpr bool fits() {
    constexpr plan_rest fewest = steps<I>::template least<by_bytes>;
    return fewest.reaches() && fewest.bytes <= Limit;
  }
  struct none {
    static constexpr bool found = false;
    static constexpr plan_label best{.time = unreachable_time, .bytes = unreachable_time};
  };
  /// What was found with the weights that layers share cut in one of their layouts.
  template <std::size_t I, class Labels>
  struct with_tie {
    using labels = Labels;
    static constexpr std::size_t tie = I;
    static constexpr plan_label best = Labels::best;
  };

  template <std::size_t I, class Best>
  static constexpr auto soonest() {
    if constexpr (I == Ties.size()) {
      return std::type_identity<Best>{};
    } else if constexpr (!fits<I>()) {
      return soonest<I + 1, Best>();
    } else if constexpr (bound<I> < Best::best.time) {
      using found = typename decltype(find_soonest<steps<I>, Limit, bound<I>, 0>())::type;
      if constexpr (found::best.time < Best::best.time)
        return soonest<I + 1, with_tie<I, found>>();
      else
        return soonest<I + 1, Best>();
    } else {
      return soonest<I + 1, Best>();
    }
  }
  using found = typename decltype(soonest<0, with_tie<0, none>>())::type;
  static constexpr bool fit = found::labels::found;

  template <std::size_t I, class Best>
  static constexpr auto smallest() {
    if constexpr (I == Ties.size()) {
      return std::type_identity<Best>{};
    } else if constexpr (!steps<I>::template least<by_bytes>.reaches()) {
      return smallest<I + 1, Best>();
    } else {
      using found = smallest_of<I>;
      if constexpr (found::best.bytes < Best::best.bytes)
        return smallest<I + 1, with_tie<I, found>>();
      else
        return smallest<I + 1, Best>();
    }
  }
  /// A plan of the fewest bytes, and which of its steps keeps most.
  template <class Found>
  struct largest {
    using model = steps<Found::tie>;
    static constexpr index_t bytes(int i) {
      search_step const& s = model::steps.at[i];
      return s.kind == search_step_kind::layer ? s.bytes[s.ways[Found::labels::plan.at[i].choice].cut] : 0;
    }
    static constexpr int step = [] {
      int most = 0;
      for (int i = 1; i < model::loss; ++i)
        if (bytes(i) > bytes(most)) most = i;
      return most;
    }();
    using layer = typename layer_of_step<bare<Model>, step>::type;
    using error = no_plan_fits<missing<Found::best.bytes - Limit>, nearest_limit<Found::best.bytes>,
                               largest_layer<layer, bytes(step)>>;
  };
  /// Does not compile, and says why.
  template <class Plan = limited_plan>
  using refusal = typename largest<typename decltype(Plan::template smallest<0, with_tie<0, none>>())::type>::error;

  template <class Found>
  struct result_of : limited_found<steps<Found::tie>, typename Found::labels> {
    static constexpr search_time time = Found::best.time - axes_that_replicate(result_of::input_layout);
    using pieces = typename result_of::template pieces_of<Model>;
  };
  using result = result_of<found>;
};

}  // namespace detail

}  // namespace tessera
