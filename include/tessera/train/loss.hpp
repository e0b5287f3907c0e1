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
  template <sharded_tensor Logits, class Labels>
  requires(!std::convertible_to<Labels const&, std::span<std::int64_t const>>) auto operator()(Logits const&,
                                                                                               Labels const&) const {
    static_assert(std::convertible_to<Labels const&, std::span<std::int64_t const>>,
                  "tessera: labels are one std::int64_t for each row of this rank: pass a std::vector<std::int64_t>");
  }
};

}  // namespace tessera
