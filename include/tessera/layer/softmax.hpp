#pragma once

#include <tessera/layer/node.hpp>
#include <tessera/op/softmax.hpp>

namespace tessera {

namespace detail {

/// What `softmax` and `log_softmax` have in common: every cut flows, and a cut of `Dim` costs reductions of rows.
template <int Dim>
struct softmax_layer {
  using words = split_words<>;
  using parameters = parameter_list<>;

  template <auto Extents>
  static constexpr int dim = softmax_dim<Dim, Extents.rank>();

  template <auto Extents>
  static constexpr index_rules rules() {
    return elementwise_rules(Extents.rank, 1);
  }
  template <auto Extents>
  static constexpr auto output() {
    [[maybe_unused]] constexpr int along = dim<Extents>;  // does not compile where there is no such dimension
    return Extents;
  }
  template <auto Extents, class Mesh>
  static constexpr void calls(phase when, resolved_layer<Mesh::axes> const& r, call_list<Mesh::axes>& list) {
    const axis_set axes = r.output.shard_axes(dim<Extents>);
    if (Mesh::group_size(axes) == 1) return;
    collective_call<Mesh::axes> call{when, collective::all_reduce, axes, reduction::sum, Extents.rank, {}, r.output,
                                     r.output, 1};
    for (int d = 0; d < Extents.rank; ++d) call.extents[d] = Extents[d];
    call.extents[dim<Extents>] = 1;
    for (auto* layout : {&call.from, &call.to})
      for (int a = 0; a < Mesh::axes; ++a)
        if ((*layout)[a].is_shard(dim<Extents>)) (*layout)[a] = replicated_placement();
    if (when == phase::forward) {
      call.op = reduction::maximum;
      list.push_back(call);
      call.op = reduction::sum;
    }
    list.push_back(call);
  }
  template <class X>
  struct saved {
    X y;
  };
};

}  // namespace detail

/// Softmax along `Dim` (negative: from the end). Every cut flows. Collectives, where `Dim` is cut: two all_reduces of
/// one value a row forward, one backward.
template <int Dim = -1>
struct softmax : detail::softmax_layer<Dim> {
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.y = op::softmax<Dim>(x);
    return saved.y;
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    if constexpr (Env::wants_input_gradient)
      return op::softmax_backward<Dim>(saved.y, dy);
    else
      return no_gradient{};
  }
};

/// Logarithm of the softmax along `Dim`, safe for logits of any size. Splits and collectives as `softmax`.
template <int Dim = -1>
struct log_softmax : detail::softmax_layer<Dim> {
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.y = op::log_softmax<Dim>(x);
    return saved.y;
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    if constexpr (Env::wants_input_gradient)
      return op::log_softmax_backward<Dim>(saved.y, dy);
    else
      return no_gradient{};
  }
};

}  // namespace tessera
