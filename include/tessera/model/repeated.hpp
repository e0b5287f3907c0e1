#pragma once

#include <tessera/layer/chain.hpp>

#include <utility>

namespace tessera::detail {

/// One chain of layers, then a block so many times, then other layers: `pipeline` can cut it anywhere.
template <class... Layers>
struct some_layers {};
template <class Before, class Block, class Sequence, class After>
struct blocks_between;
template <class... Before, class Block, int... I, class... After>
struct blocks_between<some_layers<Before...>, Block, std::integer_sequence<int, I...>, some_layers<After...>> {
  template <int>
  using again = Block;
  using type = chain<Before..., again<I>..., After...>;
};

}  // namespace tessera::detail
