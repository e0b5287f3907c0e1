#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/node.hpp>
#include <tessera/op/softmax.hpp>

namespace tessera {

namespace detail {

/// What `softmax` and `log_softmax` have in common: every cut flows, and a cut of `Dim` costs reductions of rows.
template <int Dim>
struct softmax_layer {
  using words = split_words<>;
  static constexpr kernel_kind kernels = kernel_kind::function;
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
    if (when == phase::forward)
      append_row_reduction<Mesh>(list, when, reduction::maximum, Extents, r.output, dim<Extents>);
    append_row_reduction<Mesh>(list, when, reduction::sum, Extents, r.output, dim<Extents>);
  }
  template <class X>
  struct saved {
    X y;
  };
  template <auto Extents, class Mesh>
  static constexpr kept_memory kept(resolved_layer<Mesh::axes> const& r, decltype(Mesh::sizes) const& at,
                                    index_t element_bytes) {
    auto rows = local_box<Mesh>(r.output, Extents, at);
    rows[dim<Extents>].size = 1;
    return {.output = true, .scratch = 2 * block_bytes(rows.size(), element_bytes)};  // maxima and sums
  }
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
    return op::softmax_backward<Dim>(saved.y, dy);
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
    return op::log_softmax_backward<Dim>(saved.y, dy);
  }
};

}  // namespace tessera
