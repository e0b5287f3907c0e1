#pragma once

#include <tessera/layer/kernel_kind.hpp>
#include <tessera/layer/node.hpp>

namespace tessera::detail {

/// What layers that work element by element have in common: every cut flows, a partial gradient passes.
struct elementwise_layer {
  using words = split_words<>;
  static constexpr kernel_kind kernels = kernel_kind::map;
  using parameters = parameter_list<>;
  static constexpr bool gradient_is_linear = true;

  template <auto Extents>
  static constexpr index_rules rules() {
    return elementwise_rules(Extents.rank, 1);
  }
  template <auto Extents>
  static constexpr auto output() {
    return Extents;
  }
  /// The input or the output, whichever the gradient is taken from.
  template <class X>
  struct saved {
    X value;
  };
};

}  // namespace tessera::detail
