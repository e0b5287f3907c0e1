#pragma once

#include <tessera/op/cross_entropy.hpp>

namespace tessera {

/// Cross-entropy with integer labels as the loss of a trainer; see `op::cross_entropy` for options and collectives.
struct cross_entropy {
  cross_entropy_options options{};

  template <sharded_tensor Logits>
  auto operator()(Logits const& logits, std::span<std::int64_t const> labels) const {
    return op::cross_entropy<Logits>(logits, labels, options);
  }
};

}  // namespace tessera
