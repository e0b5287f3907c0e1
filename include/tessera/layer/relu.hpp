#pragma once

#include <tessera/layer/node.hpp>
#include <tessera/op/elementwise.hpp>

namespace tessera {

/// max(x, 0). Every cut flows through; a partial input is reduced first; a partial gradient may pass. No collectives.
struct relu {
  using words = split_words<>;
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
  template <class X>
  struct saved {
    X y;
  };
  template <class Env, class Saved, class X>
  static auto forward(Env const&, Saved& saved, X const& x) {
    saved.y = op::relu(x);
    return saved.y;
  }
  template <class Env, class Saved, class Dy, class Gradients>
  static auto backward(Env const&, Saved const& saved, Dy const& dy, Gradients&) {
    return op::relu_backward(saved.y, dy);
  }
};

}  // namespace tessera
